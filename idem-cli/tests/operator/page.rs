//! The page on operations: its commands are ones that this binary takes.

use clap::Parser as _;
use idem_cli::args::Cli;

const PAGE: &str = include_str!("../../../docs/operations.md");

/// The commands that the page shows after a `$`, and those between backticks.
fn commands() -> Vec<String> {
    let joined = PAGE.replace("\\\n", " ");
    let shown = joined.lines().filter_map(|line| line.strip_prefix("$ idem "));
    let named = joined.split('`').skip(1).step_by(2).filter_map(|text| text.strip_prefix("idem "));
    shown.chain(named).map(str::to_owned).collect()
}

/// Words as a shell has them, as far as the page needs: single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (part, text) in command.split('\'').enumerate() {
        if part % 2 == 1 {
            words.last_mut().unwrap().push_str(text);
            continue;
        }
        for (word, text) in text.split(' ').enumerate() {
            if word > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(text);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What stands for a value on the page, as one.
fn filled(word: &str) -> &str {
    match word {
        "N" => "5",
        "TIME" => "1h",
        "S" | "K" | "TEXT" => "tok_1",
        "ID…" | "ID…," => "01234567-89ab-4cde-8f01-23456789abcd",
        word => word,
    }
}

#[test]
fn the_hash_of_the_page_is_what_the_command_says() {
    let (_, example) = PAGE.split_once("$ cat hash-secret\n").expect("the page shows the secret");
    let [secret, command, hash] = example.lines().collect::<Vec<_>>()[..3] else { panic!() };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hash-secret"), format!("{secret}\n")).unwrap();
    let command = words(command.strip_prefix("$ idem ").expect("a command"));
    let mut run = std::process::Command::new(crate::support::process::IDEM);
    let output = run.args(command).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), hash);
    let listed = format!("--key-hash {hash}");
    assert!(PAGE.contains(&listed), "the way back has the same hash");
}

#[test]
fn every_command_of_the_page_is_one_of_this_binary() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let words = words(&command);
        let mut args = vec!["idem"];
        args.extend(words.iter().map(|word| filled(word)));
        // The only one that needs no store.
        if !args.contains(&"--help") && args.get(1) != Some(&"hash") {
            args.extend(["--store", "memory:"]);
        }
        let Err(error) = Cli::try_parse_from(&args) else { continue };
        // A name alone, such as `idem release`, lacks what it is about.
        let lacks = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
        let helps = error.kind() == clap::error::ErrorKind::DisplayHelp;
        assert!(helps || (lacks && words.len() <= 3), "{command}: {error}");
    }
}
