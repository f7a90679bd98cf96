//! Checks whether Debian's Chromium and its driver are installed. Without them, the tests in a real browser
//! are ignored.

use std::path::Path;

fn main() {
    let programs = ["/usr/bin/chromium", "/usr/bin/chromedriver"];
    println!("cargo::rustc-check-cfg=cfg(chromium)");
    for program in programs {
        println!("cargo::rerun-if-changed={program}");
    }
    if programs.iter().all(|program| Path::new(program).exists()) {
        println!("cargo::rustc-cfg=chromium");
    }
}
