//! Checkpoints: a copy of the files that a backup cursor names.
//!
//! While the cursor is open, the blocks of the checkpoint that it names are not used again and no log file is removed. Log
//! files grow meanwhile: opening the copy replays the part that was there, a prefix of the history that has everything
//! committed before the copy began, because those records are in the files already.

use std::ffi::CStr;

use super::sessions::Worker;
use super::*;

impl WiredTiger {
    /// Copy into the empty directory `dest`, durably.
    pub(super) fn copy_to(&self, session: &Worker, dest: &Path) -> Result<()> {
        let mut cursor = ptr::null_mut();
        // SAFETY: (FW2) the session is this thread's; (FC2) the string is terminated and the out-parameter live.
        match unsafe { ffi::biombo_wt_cursor(session.session, c"backup:".as_ptr(), ptr::null(), &mut cursor) } {
            0 => {}
            code => return Err(self.error(code, "begin a checkpoint of")),
        }
        let outcome = self.copy_files(cursor, dest);
        // SAFETY: (FW2) the cursor is this thread's, and this is its last use.
        match unsafe { ffi::biombo_wt_cursor_close(cursor) } {
            0 => outcome,
            code => outcome.and_then(|()| Err(self.error(code, "end a checkpoint of"))),
        }
    }

    fn copy_files(&self, cursor: *mut ffi::Cursor, dest: &Path) -> Result<()> {
        loop {
            let mut name = ptr::null();
            // SAFETY: (FW2) the cursor is this thread's; (FC2) the out-parameter is live.
            match unsafe { ffi::biombo_wt_backup_next(cursor, &mut name) } {
                0 => {}
                ffi::NOTFOUND => return Ok(()),
                code => return Err(self.error(code, "list the files of")),
            }
            // SAFETY: (FC4) a terminated string that is valid until the cursor moves.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            let to = dest.join(&name);
            fs::copy(self.home.dir().join(&name), &to)
                .map_err(|e| Error::io(format_args!("copy {name} to {}", to.display()), e))?;
            home::sync_file(&to)?;
        }
    }
}
