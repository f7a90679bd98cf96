//! Whether the label of a link reads as an address to which the link does not lead.

/// Endings of the names of files that are no domain: <https://data.iana.org/TLD/tlds-alpha-by-domain.txt>
const FILE_ENDINGS: [&str; 31] = [
    "avi", "bmp", "conf", "css", "csv", "doc", "docx", "gif", "go", "gz", "html", "ipynb", "jpeg", "jpg",
    "js", "json", "log", "mp3", "mp4", "pdf", "png", "ppt", "pptx", "svg", "tsv", "txt", "xls", "xlsx",
    "xml", "yaml", "yml",
];

/// Whether a word reads as an address of another host. Users do not expect an address to lead to a host that
/// appears only in its path or query, or after an `@`.
pub fn names_another_host(word: &str, host: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric());
    let rest = match word.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        Some(_) | None => word,
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let is_address = word.contains("://") || (word.contains('.') && !is_version_or_file(authority));
    is_address && !authority.eq_ignore_ascii_case(host)
}

/// Whether a word is a version or the name of a file, such as `v1.2.3` and `chart.png`: apps and Slack itself
/// label links with them. No domain ends as they do.
fn is_version_or_file(word: &str) -> bool {
    // Other characters may look like one that ends a host.
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte));
    let Some((_, end)) = word.rsplit_once('.') else { return false };
    let is_ip =
        word.split('.').count() == 4 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_version = end.starts_with(|c: char| c.is_ascii_digit()) && !is_ip;
    is_plain && (is_version || FILE_ENDINGS.iter().any(|ending| end.eq_ignore_ascii_case(ending)))
}

/// The host of an address on the web.
pub fn web_host(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_and_a_file_are_no_hosts() {
        for word in ["v1.20.3", "1.2.3-rc1", "Chart.PNG", "(report_2.pdf)", "releases", "..."] {
            assert!(!names_another_host(word, "code.example"), "{word}");
        }
        for word in [
            "bank.com",
            "Bank.COM/v1.2",
            "bank.com:443",
            "bank.com@1.2",
            "10.0.0.1",
            "bank.xn--p1ai",
            "bank.\u{440}\u{444}",
            "bank.c0m",
            "bank.com\u{200b}",
            "bank.com\u{201d}",
            // A slash and a letter that only look like the end of a host.
            "bank.com\u{2044}a.png",
            "bank.com\u{ff89}a.png",
            "https://v1.2",
        ] {
            assert!(names_another_host(word, "code.example"), "{word}");
        }
    }
}
