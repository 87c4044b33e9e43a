//! The page's own files, which are part of the program.

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Address, content type and content.
pub const FILES: [(&str, &str, &str); 10] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/studio.css", "text/css; charset=utf-8", include_str!("page/studio.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/studio.js", SCRIPT, include_str!("page/studio.js")),
    ("/common.js", SCRIPT, include_str!("page/common.js")),
    ("/corrupt.js", SCRIPT, include_str!("page/corrupt.js")),
    ("/schedule.js", SCRIPT, include_str!("page/schedule.js")),
    ("/sample.js", SCRIPT, include_str!("page/sample.js")),
    ("/restore.js", SCRIPT, include_str!("page/restore.js")),
    ("/runs.js", SCRIPT, include_str!("page/runs.js")),
];
