//! Converts a report to JSON for scripts.

use serde_json::{Map, Value, json};

use rules::figures::partners::{CountByPerson, Exchange};

use super::report::{Figure, FigureName, FiguresReport, Number, PeriodMessages, TopMessage};

/// Returns the report as one JSON object.
pub fn report_json(report: &FiguresReport) -> Value {
    let [from, to] = report.period.bounds();
    let [previous_from, previous_to] = report.period.previous().bounds();
    let figures = FigureName::ALL.map(|name| (name.as_str().to_owned(), figure(&report.figure(name))));
    let mut object = json!({
        "report_id": report.id(),
        "team_id": report.team,
        "scope": report.scope.id(),
        "team_name": report.team_name,
        "name": report.scope_name,
        "from": from,
        "to": to,
        "previous": { "from": previous_from, "to": previous_to },
        "cached": false,
        "basis": report.basis,
        "is_over": report.is_over,
        "incomplete_days": report.incomplete_days,
        "expired_days": report.expired_days,
        "figures": figures.into_iter().collect::<Map<_, _>>(),
        "trend": report.trend.iter().map(period_messages).collect::<Vec<_>>(),
        "channels": report.channels,
        "users": report.users,
        "hours": report.by_hour(),
        "weekdays": report.by_weekday(),
        "weekday_hours": report.hours,
        "timezones": report.timezones,
        "emoji": report.emoji.iter().map(|(name, count)| json!({ "name": name, "count": count })).collect::<Vec<_>>(),
        "most_reacted": report.most_reacted.iter().map(|message| top_message(message, "reactions")).collect::<Vec<_>>(),
        "most_replied": report.most_replied.iter().map(|message| top_message(message, "replies")).collect::<Vec<_>>(),
    });
    if let Some(partners) = &report.partners {
        object["partners"] = json!({
            "mentions": exchange(report, &partners.mentions),
            "reactions": exchange(report, &partners.reactions),
            "replies": exchange(report, &partners.replies),
        });
    }
    object
}

fn number(number: Option<Number>) -> Value {
    match number {
        None => Value::Null,
        Some(Number::Count(count)) => count.into(),
        // The delta of a count that fell is a whole number.
        Some(Number::Real(real)) if real.fract() == 0.0 && real.abs() < 1e15 => (real as i64).into(),
        Some(Number::Real(real)) => real.into(),
    }
}

fn figure(figure: &Figure) -> Value {
    json!({
        "value": number(figure.value),
        "previous": number(figure.previous),
        "delta": number(figure.delta()),
        "percent": number(figure.percent().map(Number::Real)),
    })
}

fn period_messages(counted: &PeriodMessages) -> Value {
    let [from, to] = counted.period.bounds();
    json!({ "from": from, "to": to, "messages": counted.messages })
}

fn top_message(message: &TopMessage, counted: &str) -> Value {
    json!({
        "channel_id": message.channel, "channel": message.channel_name, "ts": message.ts, "user_id": message.user,
        "user": message.user_name, counted: message.count, "permalink": message.permalink,
    })
}

fn exchange(report: &FiguresReport, exchange: &Exchange) -> Value {
    let most = |counts: &CountByPerson| {
        let each = FiguresReport::most_frequent(counts).into_iter();
        each.map(|(id, count)| json!({ "user_id": id, "name": report.names.get(id), "count": count }))
            .collect::<Vec<_>>()
    };
    json!({ "given": most(&exchange.given), "received": most(&exchange.received) })
}
