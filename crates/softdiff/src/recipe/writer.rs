//! Writing TOML.

/// A value as TOML text.
pub(super) trait ToToml {
    fn to_toml(&self) -> String;
}

impl ToToml for str {
    fn to_toml(&self) -> String {
        let mut out = String::from("\"");
        for c in self.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
                c => out.push(c),
            }
        }
        out.push('"');
        out
    }
}

impl ToToml for &str {
    fn to_toml(&self) -> String {
        (**self).to_toml()
    }
}

impl ToToml for String {
    fn to_toml(&self) -> String {
        self.as_str().to_toml()
    }
}

impl ToToml for bool {
    fn to_toml(&self) -> String {
        self.to_string()
    }
}

impl ToToml for u64 {
    fn to_toml(&self) -> String {
        self.to_string()
    }
}

impl ToToml for usize {
    fn to_toml(&self) -> String {
        self.to_string()
    }
}

impl ToToml for f64 {
    /// The shortest text that reads back as the same number.
    fn to_toml(&self) -> String {
        format!("{self:?}")
    }
}

/// None is `false`.
impl<T: ToToml> ToToml for Option<T> {
    fn to_toml(&self) -> String {
        self.as_ref().map_or_else(|| "false".to_owned(), ToToml::to_toml)
    }
}

impl<T: ToToml> ToToml for Vec<T> {
    fn to_toml(&self) -> String {
        self.as_slice().to_toml()
    }
}

impl<T: ToToml> ToToml for [T] {
    fn to_toml(&self) -> String {
        let items: Vec<String> = self.iter().map(ToToml::to_toml).collect();
        format!("[{}]", items.join(", "))
    }
}

/// A document in the making.
#[derive(Default)]
pub(super) struct TomlWriter {
    text: String,
}

impl TomlWriter {
    pub fn section(&mut self, name: &str) {
        self.text.push_str(&format!("\n[{name}]\n"));
    }

    pub fn line(&mut self, key: &str, value: impl AsRef<str>) {
        self.text.push_str(&format!("{key} = {}\n", value.as_ref()));
    }

    pub fn value<T: ToToml + ?Sized>(&mut self, key: &str, value: &T) {
        self.line(key, value.to_toml());
    }

    /// The word of a value in a table of choices.
    pub fn word<T: PartialEq>(&mut self, key: &str, words: &[(&'static str, T)], value: &T) {
        let word = words.iter().find(|(_, candidate)| candidate == value).map_or("", |(word, _)| word);
        self.value(key, word);
    }

    pub fn finish(self) -> String {
        self.text
    }
}
