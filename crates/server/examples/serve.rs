//! The server without the command line: each argument is a listener's URL or `key=value`.

fn main() -> anyhow::Result<()> {
    let mut sources = meridian_server::config::Sources::from_env();
    for argument in std::env::args().skip(1) {
        if argument.contains("://") { sources.listen.push(argument) } else { sources.set.push(argument) }
    }
    let loaded = meridian_server::config::Config::load(&sources).map_err(|problems| {
        anyhow::anyhow!("{}", problems.iter().map(|p| p.to_string()).collect::<String>())
    })?;
    meridian_server::run(loaded, meridian_server::RunOptions::default())
}
