//! A page of the tree: 4 KiB, sorted cells behind slots. `docs/format/micro.md` draws it.
//!
//! Invariants:
//!
//! 1. `count` slots follow the header; each leads to a cell. Cells lie between `cells_begin` and the end of the page without holes.
//! 2. Cells are in strict order of their keys. In an inner page, the child of a cell holds keys at or after that cell's, `first` those
//!    before.
//! 3. What [`Page::check`] has passed is never read past its end, whatever its bytes are: only such pages come from a file.

use biombo_base::checksum::crc32c_append;
use biombo_base::coding::{get_u32, put_u32};
use biombo_base::io::AlignedBuf;

/// The size of a page, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Before the slots.
const HEADER_BYTES: usize = 20;
/// Where the generation lies.
const GENERATION_AT: usize = 16;
const SLOT_BYTES: usize = 2;
/// What cells and their slots may take.
pub(crate) const ROOM_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// The largest cell with its slot: a third, so that any page and one cell more can be divided into two.
pub(crate) const CELL_BYTES_MAX: usize = ROOM_BYTES / 3;

const LEAF: u8 = 1;
const INNER: u8 = 2;
/// In a leaf cell's length of key: the value lies in a run of pages of its own.
const IN_RUN: u16 = 1 << 15;

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored<'a> {
    /// In its leaf.
    Inline(&'a [u8]),
    /// In a run of whole pages.
    Run(Run),
}

/// A value in pages of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its first page.
    pub page: u32,
    /// The value's length.
    pub value_bytes: u32,
}

impl Stored<'_> {
    /// The value's length, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Inline(value) => value.len(),
            Self::Run(run) => run.value_bytes as usize,
        }
    }
}

/// See the module. Its memory is not aligned for direct reads: that would take twice as much ([`crate::heap`]).
#[derive(Clone)]
pub(crate) struct Page(Box<[u8]>);

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn put_u16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// The checksum of a page, or of the first page of a run and what follows it: of all but its own place.
pub(crate) fn checksum(seed: u32, number: u32, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(seed, &number.to_le_bytes()), &bytes[4..])
}

impl Page {
    /// A leaf without cells.
    pub fn leaf() -> Self {
        Self::new(LEAF, 0)
    }

    /// An inner page with one child.
    pub fn inner(first: u32) -> Self {
        Self::new(INNER, first)
    }

    fn new(kind: u8, first: u32) -> Self {
        let mut page = Self(vec![0; PAGE_BYTES].into());
        page.0[4] = kind;
        put_u16(&mut page.0, 8, PAGE_BYTES);
        put_u32(&mut page.0, 12, first);
        page
    }

    /// The page that was read as `bytes`, or what is wrong with it. A page that is younger than `generation` is not the one that was
    /// asked for: another tree than that of the head has taken its place.
    pub fn check(bytes: &[u8], seed: u32, number: u32, generation: u32) -> Result<Self, &'static str> {
        if bytes.len() != PAGE_BYTES || get_u32(bytes, 0) != Some(checksum(seed, number, bytes)) {
            return Err("the checksum of the page differs");
        }
        if get_u32(bytes, GENERATION_AT).is_none_or(|found| found > generation) {
            return Err("the page is younger than the head that leads to it");
        }
        let page = Self(bytes.into());
        if page.is_sound() { Ok(page) } else { Err("the page's cells do not lie within it in order") }
    }

    fn is_sound(&self) -> bool {
        let (slots_end, begin) = (HEADER_BYTES + self.count() * SLOT_BYTES, u16_at(&self.0, 8));
        if !matches!(self.0[4], LEAF | INNER) || slots_end > begin || begin > PAGE_BYTES {
            return false;
        }
        let mut used = 0;
        for index in 0..self.count() {
            let at = self.slot(index);
            if at < begin || at + 2 > PAGE_BYTES {
                return false;
            }
            let head = u16_at(&self.0, at);
            let key_bytes = head & !usize::from(IN_RUN);
            let bytes = match (self.is_leaf(), head & usize::from(IN_RUN) != 0) {
                (false, false) => 6 + key_bytes,
                (true, true) => 10 + key_bytes,
                (true, false) if at + 4 <= PAGE_BYTES => 4 + key_bytes + u16_at(&self.0, at + 2),
                _ => return false,
            };
            if at + bytes > PAGE_BYTES || index > 0 && self.key(index - 1) >= self.key(index) {
                return false;
            }
            used += bytes;
        }
        used == PAGE_BYTES - begin
    }

    /// Copy it into `into`, sealed as page `number` of this generation.
    pub fn seal(&self, seed: u32, number: u32, generation: u32, into: &mut AlignedBuf) {
        let at = into.len();
        into.extend_from_slice(&self.0);
        put_u32(&mut into[at..], GENERATION_AT, generation);
        let crc = checksum(seed, number, &into[at..]);
        put_u32(&mut into[at..], 0, crc);
    }

    pub fn is_leaf(&self) -> bool {
        self.0[4] == LEAF
    }

    pub fn count(&self) -> usize {
        u16_at(&self.0, 6)
    }

    fn slot(&self, index: usize) -> usize {
        u16_at(&self.0, HEADER_BYTES + index * SLOT_BYTES)
    }

    pub fn key(&self, index: usize) -> &[u8] {
        let at = self.slot(index);
        let key_bytes = u16_at(&self.0, at) & !usize::from(IN_RUN);
        // The head of a cell is 4 bytes with an inline value, 6 of an inner page, 10 with a run.
        let begin = at + self.head_bytes(at);
        &self.0[begin..begin + key_bytes]
    }

    fn head_bytes(&self, at: usize) -> usize {
        match (self.is_leaf(), u16_at(&self.0, at) & usize::from(IN_RUN) != 0) {
            (false, _) => 6,
            (true, false) => 4,
            (true, true) => 10,
        }
    }

    fn cell_bytes(&self, at: usize) -> usize {
        let head = u16_at(&self.0, at);
        let value_bytes = if self.is_leaf() && head & usize::from(IN_RUN) == 0 { u16_at(&self.0, at + 2) } else { 0 };
        self.head_bytes(at) + (head & !usize::from(IN_RUN)) + value_bytes
    }

    /// All of a cell.
    pub fn cell(&self, index: usize) -> &[u8] {
        let at = self.slot(index);
        &self.0[at..at + self.cell_bytes(at)]
    }

    /// The value of a leaf's cell.
    pub fn value(&self, index: usize) -> Stored<'_> {
        let cell = self.cell(index);
        if u16_at(cell, 0) & usize::from(IN_RUN) != 0 {
            let number = |at| get_u32(cell, at).expect("invariant: a cell with a run has a head of 10 bytes");
            Stored::Run(Run { value_bytes: number(2), page: number(6) })
        } else {
            Stored::Inline(&cell[4 + u16_at(cell, 0)..])
        }
    }

    /// A child of an inner page, of which there is one more than cells.
    pub fn child(&self, index: usize) -> u32 {
        let at = if index == 0 { 12 } else { self.slot(index - 1) + 2 };
        get_u32(&self.0, at).expect("invariant: within the page")
    }

    /// Lead to another child there.
    pub fn set_child(&mut self, index: usize, child: u32) {
        let at = if index == 0 { 12 } else { self.slot(index - 1) + 2 };
        put_u32(&mut self.0, at, child);
    }

    /// Where `key` is, or where it would be.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The child of an inner page that holds `key`.
    pub fn child_of(&self, key: &[u8]) -> usize {
        self.search(key).map_or_else(|before| before, |at| at + 1)
    }

    /// Put a cell before the one at `index`; false where there is no room for it.
    pub fn insert(&mut self, index: usize, cell: &[u8]) -> bool {
        let (count, begin) = (self.count(), u16_at(&self.0, 8));
        let slots_end = HEADER_BYTES + count * SLOT_BYTES;
        if begin - slots_end < cell.len() + SLOT_BYTES {
            return false;
        }
        let at = begin - cell.len();
        self.0[at..begin].copy_from_slice(cell);
        let slot = HEADER_BYTES + index * SLOT_BYTES;
        self.0.copy_within(slot..slots_end, slot + SLOT_BYTES);
        put_u16(&mut self.0, slot, at);
        put_u16(&mut self.0, 6, count + 1);
        put_u16(&mut self.0, 8, at);
        true
    }

    /// Take a cell out; the hole is closed.
    pub fn remove(&mut self, index: usize) {
        let (count, begin, at) = (self.count(), u16_at(&self.0, 8), self.slot(index));
        let bytes = self.cell_bytes(at);
        self.0.copy_within(begin..at, begin + bytes);
        let slot = HEADER_BYTES + index * SLOT_BYTES;
        self.0.copy_within(slot + SLOT_BYTES..HEADER_BYTES + count * SLOT_BYTES, slot);
        put_u16(&mut self.0, 6, count - 1);
        put_u16(&mut self.0, 8, begin + bytes);
        for index in 0..count - 1 {
            let other = self.slot(index);
            if other < at {
                put_u16(&mut self.0, HEADER_BYTES + index * SLOT_BYTES, other + bytes);
            }
        }
    }

    /// Divide the cells of this page, with `cell` put at `index`, between it and a new page to its right, by bytes. Returns the new
    /// page and the key that parts them: of an inner page, that of the cell that moved up.
    pub fn split(&mut self, index: usize, cell: &[u8]) -> (Self, Vec<u8>) {
        let mut cells: Vec<Vec<u8>> = (0..self.count()).map(|at| self.cell(at).to_vec()).collect();
        cells.insert(index, cell.to_vec());
        let half = cells.iter().map(|cell| cell.len() + SLOT_BYTES).sum::<usize>() / 2;
        let mut left_bytes = 0;
        let middle = cells.iter().position(|cell| {
            left_bytes += cell.len() + SLOT_BYTES;
            left_bytes > half
        });
        // Both sides have a cell: none takes more than a third of a page, and together they do not fit one.
        let middle = middle.unwrap_or(1).max(1);
        let is_leaf = self.is_leaf();
        let mut left = Self::new(self.0[4], self.child(0));
        let mut right = Self::new(self.0[4], 0);
        let fill = |page: &mut Self, cells: &[Vec<u8>]| {
            for (at, cell) in cells.iter().enumerate() {
                assert!(page.insert(at, cell), "invariant: half of the cells fit a page");
            }
        };
        fill(&mut left, &cells[..middle]);
        let parting = if is_leaf {
            fill(&mut right, &cells[middle..]);
            shortest_between(left.key(middle - 1), right.key(0)).to_vec()
        } else {
            let up = &cells[middle];
            right.set_child(0, get_u32(up, 2).expect("invariant: an inner cell has a child"));
            fill(&mut right, &cells[middle + 1..]);
            up[6..].to_vec()
        };
        *self = left;
        (right, parting)
    }
}

/// The shortest beginning of `right` that is after `left`, which is before it.
fn shortest_between<'r>(left: &[u8], right: &'r [u8]) -> &'r [u8] {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..common + 1]
}

/// A leaf's cell; `None` where the value needs a run of its own.
pub(crate) fn inline_cell(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let bytes = 4 + key.len() + value.len();
    if bytes + SLOT_BYTES > CELL_BYTES_MAX {
        return None;
    }
    let mut cell = Vec::with_capacity(bytes);
    cell.extend_from_slice(&(key.len() as u16).to_le_bytes());
    cell.extend_from_slice(&(value.len() as u16).to_le_bytes());
    cell.extend_from_slice(key);
    cell.extend_from_slice(value);
    Some(cell)
}

/// The same with the value elsewhere.
pub(crate) fn run_cell(key: &[u8], run: Run) -> Vec<u8> {
    let mut cell = Vec::with_capacity(10 + key.len());
    cell.extend_from_slice(&(key.len() as u16 | IN_RUN).to_le_bytes());
    cell.extend_from_slice(&run.value_bytes.to_le_bytes());
    cell.extend_from_slice(&run.page.to_le_bytes());
    cell.extend_from_slice(key);
    cell
}

/// A cell of an inner page.
pub(crate) fn inner_cell(key: &[u8], child: u32) -> Vec<u8> {
    let mut cell = Vec::with_capacity(6 + key.len());
    cell.extend_from_slice(&(key.len() as u16).to_le_bytes());
    cell.extend_from_slice(&child.to_le_bytes());
    cell.extend_from_slice(key);
    cell
}
