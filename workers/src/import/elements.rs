//! The elements of a JSON array, one after the other, in constant memory: a day of an export may have
//! hundreds of megabytes.

use std::io::{self, Read};

use serde_json::value::RawValue;

/// A longer element is not a message: this is ten times what Slack accepts, including blocks and attachments.
pub(crate) const MAX_ELEMENT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes read in one call.
const CHUNK_BYTES: usize = 64 * 1024;

/// A file may start with a byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
pub(crate) enum ArrayElement<'b> {
    Json(&'b RawValue),
    /// The element is not JSON, for this reason; the elements after it can be read.
    Malformed(&'static str),
}

/// The reason why no more elements can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Break {
    /// The bytes are not an array from here on.
    #[error("{0}")]
    Shape(&'static str),
    /// The bytes cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayState {
    Begin,
    /// After `[`.
    First,
    /// After a comma.
    Next,
    /// After `]`.
    Closed,
    End,
}

/// Where an element ends.
struct Extent {
    /// Its length in the buffer; `None` if it was too long to be buffered.
    length: Option<usize>,
    is_last: bool,
}

/// Reads the elements of an array.
pub(crate) struct Elements<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The bytes from this index on have not been returned yet.
    begin: usize,
    state: ArrayState,
}

impl<R: Read> Elements<R> {
    /// The elements of the array in these bytes.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::with_capacity(CHUNK_BYTES), begin: 0, state: ArrayState::Begin }
    }

    /// The next element; `None` at the end of the array, once all bytes are read. Must not be called after a
    /// [`Break`].
    pub(crate) fn next(&mut self) -> Result<Option<ArrayElement<'_>>, Break> {
        if self.state == ArrayState::Begin {
            self.open()?;
        }
        if self.state == ArrayState::Closed {
            self.close()?;
        }
        if self.state == ArrayState::End {
            return Ok(None);
        }
        let is_first = self.state == ArrayState::First;
        let Some(byte) = self.skip_space()? else { return Err(Break::Shape("it ends in the middle")) };
        if byte == b']' && is_first {
            self.begin += 1;
            self.close()?;
            return Ok(None);
        }
        let Extent { length, is_last } = self.extent()?;
        let (from, to) = (self.begin, self.begin + length.unwrap_or(0));
        // Skip the delimiter after it.
        self.begin = to + 1;
        self.state = if is_last { ArrayState::Closed } else { ArrayState::Next };
        Ok(Some(element_of(length.map(|_| &self.buffer[from..to]))))
    }

    fn open(&mut self) -> Result<(), Break> {
        while self.buffer.len() < BYTE_ORDER_MARK.len() && self.fill()? {}
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.begin = BYTE_ORDER_MARK.len();
        }
        match self.skip_space()? {
            Some(b'[') => {
                self.begin += 1;
                self.state = ArrayState::First;
                Ok(())
            }
            Some(_) => Err(Break::Shape("it is not a list")),
            None => Err(Break::Shape("it is empty")),
        }
    }

    /// Checks that nothing follows the list: some damage shows only at the end of the file.
    fn close(&mut self) -> Result<(), Break> {
        match self.skip_space()? {
            Some(_) => Err(Break::Shape("something follows the list")),
            None => {
                self.state = ArrayState::End;
                Ok(())
            }
        }
    }

    /// The next byte that is not whitespace; `None` at the end.
    fn skip_space(&mut self) -> Result<Option<u8>, Break> {
        loop {
            let rest = &self.buffer[self.begin..];
            if let Some(at) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.begin += at;
                return Ok(Some(self.buffer[self.begin]));
            }
            self.begin = self.buffer.len();
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Finds the end of the element that begins here: the next comma or closing bracket outside of nested
    /// values.
    fn extent(&mut self) -> Result<Extent, Break> {
        let (mut depth, mut in_text, mut escaped, mut too_long) = (0_usize, false, false, false);
        let mut at = self.begin;
        loop {
            while let Some(byte) = self.buffer.get(at).copied() {
                at += 1;
                if escaped {
                    escaped = false;
                } else if in_text {
                    in_text = byte != b'"';
                    escaped = byte == b'\\';
                } else {
                    match byte {
                        b'"' => in_text = true,
                        b'{' | b'[' => depth += 1,
                        b',' | b']' if depth == 0 => {
                            let length = (!too_long).then(|| at - 1 - self.begin);
                            if too_long {
                                self.begin = at - 1;
                            }
                            if length == Some(0) {
                                return Err(Break::Shape("an element is empty"));
                            }
                            return Ok(Extent { length, is_last: byte == b']' });
                        }
                        b'}' | b']' if depth > 0 => depth -= 1,
                        b'}' => return Err(Break::Shape("a bracket is closed that was not opened")),
                        _ => {}
                    }
                }
            }
            if self.buffer.len() - self.begin > MAX_ELEMENT_BYTES {
                too_long = true;
            }
            if too_long {
                self.begin = self.buffer.len();
            }
            let begin = self.begin;
            if !self.fill()? {
                return Err(Break::Shape("it ends in the middle"));
            }
            at -= begin - self.begin;
        }
    }

    /// Reads more bytes into the buffer, after dropping the returned ones; `false` at the end.
    fn fill(&mut self) -> Result<bool, Break> {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK_BYTES, 0);
        let read = loop {
            match self.reader.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(length + read.as_ref().copied().unwrap_or(0));
        Ok(read? > 0)
    }
}

fn element_of(bytes: Option<&[u8]>) -> ArrayElement<'_> {
    let Some(bytes) = bytes else { return ArrayElement::Malformed("it is longer than any message") };
    let Ok(text) = std::str::from_utf8(bytes) else { return ArrayElement::Malformed("it is not UTF-8") };
    serde_json::from_str(text).map_or(ArrayElement::Malformed("it is not JSON"), ArrayElement::Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes per call.
    struct Slow<'b> {
        bytes: &'b [u8],
        bytes_per_read: usize,
    }

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.bytes_per_read.min(self.bytes.len()).min(into.len());
            let (now, later) = self.bytes.split_at(count);
            into[..count].copy_from_slice(now);
            self.bytes = later;
            Ok(count)
        }
    }

    /// The elements, and the reason why there were no more.
    fn elements(bytes: &[u8], bytes_per_read: usize) -> (Vec<String>, Option<String>) {
        let mut elements = Elements::new(Slow { bytes, bytes_per_read });
        let mut found = Vec::new();
        loop {
            match elements.next() {
                Ok(Some(ArrayElement::Json(raw))) => found.push(raw.get().to_owned()),
                Ok(Some(ArrayElement::Malformed(why))) => found.push(format!("! {why}")),
                Ok(None) => return (found, None),
                Err(broken) => return (found, Some(broken.to_string())),
            }
        }
    }

    #[test]
    fn elements_come_one_by_one_however_the_bytes_arrive() {
        let object = r#"{"a":"]},\"[\\","b":[1,{"c":[]}]}"#;
        let list = format!("\u{feff} [ {object} ,\n null,7 , \"x,]\" , [] ] \n");
        for bytes_per_read in [1, 2, 3, 7, 1000] {
            let (found, broken) = elements(list.as_bytes(), bytes_per_read);
            assert_eq!(found, [object, "null", "7", "\"x,]\"", "[]"], "{bytes_per_read}");
            assert_eq!(broken, None);
            assert_eq!(elements(b" [ ] ", bytes_per_read), (Vec::new(), None));
        }
    }

    #[test]
    fn elements_before_a_break_are_read_and_the_break_has_a_reason() {
        for (list, found, why) in [
            (&b""[..], &[][..], "empty"),
            (b"{}", &[], "not a list"),
            (b"null", &[], "not a list"),
            (b"[", &[], "ends"),
            (b"[1", &[], "ends"),
            (b"[1,", &["1"], "ends"),
            (b"[1,{\"a\":\"b", &["1"], "ends"),
            (b"[1,]", &["1"], "empty"),
            (b"[,1]", &[], "empty"),
            (b"[1}", &[], "closed"),
            (b"[1,2] 3", &["1", "2"], "follows"),
        ] {
            let (read, broken) = elements(list, 3);
            let broken = broken.unwrap_or_default();
            assert_eq!(read, found, "{}", String::from_utf8_lossy(list));
            assert!(broken.contains(why), "{}: {broken}", String::from_utf8_lossy(list));
        }
    }

    #[test]
    fn an_element_that_is_not_json_does_not_affect_others() {
        let (found, broken) = elements(b"[1, {a}, \"\xff\", {\"a\":[}], tru, 2]", 5);
        assert_eq!(
            found,
            ["1", "! it is not JSON", "! it is not UTF-8", "! it is not JSON", "! it is not JSON", "2"]
        );
        assert_eq!(broken, None);
    }

    #[test]
    fn a_huge_element_and_deep_nesting_need_bounded_memory_and_stack() {
        let mut list = b"[\"".to_vec();
        list.extend(std::iter::repeat_n(b'x', 3 * MAX_ELEMENT_BYTES));
        list.extend_from_slice(b"\",1,");
        list.extend(std::iter::repeat_n(b'[', 1_000_000));
        list.extend(std::iter::repeat_n(b']', 1_000_000));
        list.extend_from_slice(b",2]");
        let mut elements = Elements::new(&list[..]);
        assert!(matches!(elements.next(), Ok(Some(ArrayElement::Malformed(_)))));
        assert!(elements.buffer.capacity() < 3 * MAX_ELEMENT_BYTES, "{}", elements.buffer.capacity());
        assert!(matches!(elements.next(), Ok(Some(ArrayElement::Json(_)))));
        assert!(matches!(elements.next(), Ok(Some(_))));
        assert!(matches!(elements.next(), Ok(Some(ArrayElement::Json(raw))) if raw.get() == "2"));
        assert!(matches!(elements.next(), Ok(None)));
    }
}
