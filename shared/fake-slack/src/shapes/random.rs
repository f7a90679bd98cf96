//! Random messages of every kind of content, nested in each other, and random damage to them.

use serde_json::{Value, json};

use super::{
    ATTACHMENTS, BLOCKS, ELEMENTS, INVENTED_BLOCKS, INVENTED_ELEMENTS, Markers, MessageShape, app_message,
    rich_text,
};

/// Returns a number below its argument.
pub type Pick<'p> = &'p mut dyn FnMut(usize) -> usize;

/// Returns an app's message with blocks or attachments, some of them in each other.
pub fn random_message(ts: &str, markers: &mut Markers, pick: Pick<'_>) -> Value {
    let mut content = json!({});
    // With text in the blocks, Slack does not show the text of the message.
    let kind = pick(4);
    if kind != 0 {
        content["blocks"] = (0..=pick(3)).map(|_| random_block(markers, pick)).collect();
    }
    if kind < 2 {
        content["attachments"] = (0..=pick(2)).map(|_| random_attachment(markers, pick)).collect();
    }
    app_message(ts, content)
}

/// Replaces random values of a message's content by values of other types. The message stays a message.
pub fn damage(message: &mut Value, pick: Pick<'_>) {
    for name in ["blocks", "attachments"] {
        if let Some(value) = message.get_mut(name) {
            damage_one(value, pick);
        }
    }
}

fn random_block(markers: &mut Markers, pick: Pick<'_>) -> Value {
    match pick(8) {
        0..3 => {
            let elements: Vec<Value> =
                (0..=pick(3)).map(|_| one_of(&[ELEMENTS, INVENTED_ELEMENTS], markers, pick)).collect();
            rich_text(&elements)
        }
        3 => json!({ "type": "container", "title": markers.plain(),
            "child_blocks": [random_block(markers, pick), random_block(markers, pick)] }),
        4 => json!({ "type": "drawer", "blocks": [random_block(markers, pick)], "caption": markers.word() }),
        _ => one_of(&[BLOCKS, INVENTED_BLOCKS], markers, pick),
    }
}

fn random_attachment(markers: &mut Markers, pick: Pick<'_>) -> Value {
    match pick(4) {
        0 => json!({ "id": 1, "blocks": [random_block(markers, pick)] }),
        1 => json!({ "id": 1, "is_share": true, "author_name": markers.word(),
            "message_blocks": [{ "message": { "blocks": [random_block(markers, pick)] } }] }),
        _ => one_of(&[ATTACHMENTS], markers, pick),
    }
}

fn one_of(tables: &[&[MessageShape]], markers: &mut Markers, pick: Pick<'_>) -> Value {
    let shapes: Vec<&MessageShape> = tables.iter().copied().flatten().collect();
    shapes[pick(shapes.len())].1(markers)
}

fn damage_one(value: &mut Value, pick: Pick<'_>) {
    let parts = match value {
        Value::Object(members) => members.len(),
        Value::Array(elements) => elements.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    if parts == 0 || pick(6) == 0 {
        let others = [
            Value::Null,
            json!([]),
            json!({}),
            json!(17),
            json!(-0.5),
            json!(true),
            json!(""),
            json!("noise"),
        ];
        let long_id = json!("A".repeat(255));
        *value = match pick(10) {
            8 => long_id,
            9 => json!([[std::mem::take(value)]]),
            index => others[index].clone(),
        };
        return;
    }
    let index = pick(parts);
    match value {
        Value::Object(members) => {
            members.values_mut().nth(index).into_iter().for_each(|part| damage_one(part, pick))
        }
        Value::Array(elements) => damage_one(&mut elements[index], pick),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
