//! Reads a secret from a terminal that does not show it.

use std::io::{self, Read, Write};

use anyhow::bail;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

/// More than any token of Slack has.
const MAX_BYTES: usize = 4_096;

/// What the terminal sends for Ctrl-C and Ctrl-D: without signals, so that it shows input again before the program ends.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 127];

/// A terminal that shows no input; dropping it restores the terminal.
struct HiddenInput(Termios);

impl HiddenInput {
    fn begin() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // If this fails, the terminal is gone.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Asks for a line that is not shown.
pub(super) fn ask(question: &str, out: &mut dyn Write) -> anyhow::Result<String> {
    let hidden = HiddenInput::begin()?;
    write!(out, "{question}: ")?;
    out.flush()?;
    let line = read_line(&mut io::stdin().lock());
    drop(hidden);
    writeln!(out)?;
    out.flush()?;
    match line? {
        Some(line) => Ok(line),
        None => bail!("the input ended and nothing was written: run `annalist setup` again"),
    }
}

/// Reads a line, byte by byte; `None` if a person ends it.
fn read_line(input: &mut dyn Read) -> io::Result<Option<String>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while input.read(&mut byte)? == 1 {
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            CTRL_C => return Ok(None),
            CTRL_D if line.is_empty() => return Ok(None),
            byte if BACKSPACE.contains(&byte) => {
                line.pop();
            }
            byte if line.len() < MAX_BYTES => line.push(byte),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_enter_and_keys_that_end_the_program_return_nothing() {
        for (typed, expected) in [
            (&b"xoxb-1\r"[..], Some("xoxb-1")),
            (b"xoxb-1\nmore", Some("xoxb-1")),
            (b"xoxx\x7f\x08b-1\n", Some("xob-1")),
            (b"\n", Some("")),
            (b"xoxb\x03\n", None),
            (b"\x04", None),
            (b"xoxb", None),
        ] {
            assert_eq!(read_line(&mut &typed[..]).unwrap().as_deref(), expected, "{typed:?}");
        }
        let long = [&[b'a'; 10_000][..], b"\n"].concat();
        assert_eq!(read_line(&mut &long[..]).unwrap().unwrap().len(), MAX_BYTES);
    }
}
