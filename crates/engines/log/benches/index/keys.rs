//! Keys to index: the same ones in every run.

pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Paths as a file system has them: a skewed tree of named directories, files beside one another. 65 bytes on average.
pub fn paths(n: usize) -> Vec<Vec<u8>> {
    const NAMES: [&str; 16] = [
        "src",
        "include",
        "documentation",
        "test",
        "node_modules",
        "lib",
        "vendor",
        "resources",
        "components",
        "build",
        "internal",
        "share",
        "python3",
        "site-packages",
        "assets",
        "locale",
    ];
    const ENDS: [&str; 6] = [".rs", ".html", ".js", "_test.py", ".json", ".h"];
    let mut state = 42;
    let mut directories = vec![String::from("/usr/share"), String::from("/opt/projects")];
    while directories.len() < n / 12 + 2 {
        let parent = &directories[(random(&mut state) % directories.len() as u64) as usize];
        if parent.len() < 45 {
            let name = NAMES[(random(&mut state) % 16) as usize];
            directories.push(format!("{parent}/{name}-{}", random(&mut state) % 100));
        }
    }
    let mut keys = std::collections::HashSet::new();
    while keys.len() < n {
        let directory = &directories[(random(&mut state) % directories.len() as u64) as usize];
        let (name, end) = (NAMES[(random(&mut state) % 16) as usize], ENDS[(random(&mut state) % 6) as usize]);
        keys.insert(format!("{directory}/{name}_{}{end}", random(&mut state) % 1000).into_bytes());
    }
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort_unstable();
    shuffle(&mut keys, &mut state);
    keys
}

pub fn shuffle<T>(items: &mut [T], state: &mut u64) {
    for i in (1..items.len()).rev() {
        items.swap(i, (random(state) % (i as u64 + 1)) as usize);
    }
}
