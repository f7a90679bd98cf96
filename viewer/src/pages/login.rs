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

/// Renders the page with the link to the provider. `next` is the address to go to after the sign-in. A form could
/// not lead to another site: the policy of the pages forbids it.
pub fn sign_in_page(next: &str, is_slack: bool, links: &dyn LinkScheme) -> Markup {
    layout::document(
        "Sign in · Annalist",
        links,
        &html! {
            main class="alone" id="main" {
                h1 { "Annalist" }
                p { a class="sign-in" href=(start_address(next)) { @if is_slack { "Sign in with Slack" } @else { "Sign in" } } }
            }
        },
    )
}

/// Renders a page that says why a sign-in failed.
pub fn failed_page(message: &str, links: &dyn LinkScheme) -> Markup {
    layout::document(
        "Sign in · Annalist",
        links,
        &html! {
            main class="alone" id="main" {
                h1 { "Not signed in" }
                p role="alert" { (message) }
                p { a href="/login" { "Start again" } }
            }
        },
    )
}

/// The address that leads to the provider.
fn start_address(next: &str) -> String {
    format!("/login/start?next={}", query_value(next))
}

/// A path of this site as a value of a query.
pub fn query_value(path: &str) -> String {
    path.replace('%', "%25").replace('&', "%26").replace('+', "%2B").replace('#', "%23")
}
