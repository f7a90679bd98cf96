//! The log-in.

use maud::{Markup, html};

use super::layout;
use crate::links::LinkScheme;

/// Renders the password form. `next` is the address to go to after the log-in.
pub fn page(next: &str, error: Option<&str>, links: &dyn LinkScheme) -> Markup {
    layout::document(
        "Log in · Annalist",
        links,
        &html! {
            main class="alone" id="main" {
                h1 { "Annalist" }
                form class="login" action="/login" method="post" {
                    @if let Some(error) = error { p class="note" role="alert" { (error) } }
                    input type="hidden" name="next" value=(next);
                    label for="password" { "Password of this archive" }
                    input id="password" name="password" type="password" required autocomplete="current-password" maxlength="1000";
                    button type="submit" { "Log in" }
                }
            }
        },
    )
}
