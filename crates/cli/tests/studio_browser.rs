//! The studio in a real browser: Chromium without a window, where it is installed (with chromedriver).
//!
//! `SOFTDIFF_SCREENSHOTS=FOLDER` keeps what was seen; `SOFTDIFF_STUDIO_RUNS=FOLDER` shows other runs than a tiny one.

mod studio_support;
mod support;

use serde_json::Value;
use studio_support::Server;
use studio_support::browser::Browser;
use support::{Scratch, tiny_run};

/// Sets a control as a user would, with the events that follow.
fn set(browser: &Browser, control: &str, value: &str) {
    browser.run(&format!(
        "const c = document.querySelector({control:?}); c.value = {value:?};
         c.dispatchEvent(new Event('input', {{ bubbles: true }})); c.dispatchEvent(new Event('change', {{ bubbles: true }}));"
    ));
}

fn click(browser: &Browser, control: &str) {
    browser.run(&format!("document.querySelector({control:?}).click();"));
}

/// Keeps what is seen, where that is wanted.
fn keep(browser: &Browser, name: &str) {
    let picture = browser.screenshot();
    assert!(picture.len() > 1000);
    if let Some(folder) = std::env::var_os("SOFTDIFF_SCREENSHOTS") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("studio-{name}.png")), decoded(&picture)).unwrap();
    }
}

/// Base64 without its padding.
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for value in text.chars().filter_map(|letter| LETTERS.find(letter)) {
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// A run named like markup shows that names stay names.
const EVIL: &str = "<img src=x onerror=document.title=1>";

#[test]
fn a_browser_corrupts_samples_restores_and_compares_runs() {
    let Some(browser) = Browser::start() else {
        eprintln!("skipped: there is no chromedriver here; install chromium-driver to run this test");
        return;
    };
    let scratch = Scratch::new("browser");
    tiny_run(&scratch);
    std::fs::rename(scratch.path("run"), scratch.path(EVIL)).unwrap();
    let other = std::env::var("SOFTDIFF_STUDIO_RUNS").ok();
    let server = Server::start(&["--runs", other.as_deref().unwrap_or(&scratch.path(""))]);

    browser.looks(1100, 760, false);
    browser.open(&server.url);
    browser.wait("document.body.dataset.ready === 'yes'");
    corrupt(&browser);
    schedule(&browser);
    sample(&browser);
    restore(&browser);
    runs(&browser, other.is_none());
    narrow(&browser);
    browser.run("console.error('the end');");
    let complaints = browser.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("the end"), "the console says {complaints:?}");
}

fn corrupt(browser: &Browser) {
    browser.wait("document.getElementById('corrupt-image').dataset.shown === 'blur none 0.5 true'");
    let before = browser.run("return document.getElementById('corrupt-image').src;");
    // By keyboard: the slider goes one step per arrow.
    browser.run("document.getElementById('corrupt-t').focus();");
    browser.keys(&["\u{E014}", "\u{E014}", "\u{E014}"]);
    browser.wait("document.getElementById('corrupt-image').dataset.shown === 'blur none 0.53 true'");
    assert_ne!(browser.run("return document.getElementById('corrupt-image').src;"), before);
    set(browser, "#corrupt-form [name=second]", "masking");
    set(browser, "#corrupt-t", "0.6");
    browser.wait("document.getElementById('corrupt-image').dataset.shown === 'blur masking 0.6 true'");
    // An upload, as if a file had been chosen.
    browser.run(
        "const canvas = document.createElement('canvas'); [canvas.width, canvas.height] = [600, 480];
         const pen = canvas.getContext('2d'), sky = pen.createLinearGradient(0, 0, 0, 480);
         sky.addColorStop(0, '#1f5fbf'); sky.addColorStop(1, '#ffd9a0'); pen.fillStyle = sky; pen.fillRect(0, 0, 600, 480);
         pen.fillStyle = '#fff4c2'; pen.beginPath(); pen.arc(430, 120, 55, 0, 7); pen.fill();
         for (const [x, y, c] of [[0, 330, '#3d6b4f'], [220, 260, '#2b4f3a'], [420, 320, '#1c3527']]) {
           pen.fillStyle = c; pen.beginPath(); pen.moveTo(x - 200, 480); pen.lineTo(x + 60, y); pen.lineTo(x + 340, 480); pen.fill(); }
         canvas.toBlob((blob) => { const files = new DataTransfer();
           files.items.add(new File([blob], 'hills.png')); const input = document.querySelector('#corrupt-form [name=file]');
           input.files = files.files; input.dispatchEvent(new Event('change')); });",
    );
    browser.wait("/256 x 204/.test(document.getElementById('corrupt-facts').textContent)");
    let note = browser.run("return document.getElementById('corrupt-upload').textContent;");
    assert_eq!(note, "Your image has 600 x 480 pixels; here it is made 256 x 204.");
    // Without noise, which no file makes small.
    click(browser, "#corrupt-form [name=noise]");
    set(browser, "#corrupt-t", "0.45");
    browser.wait("document.getElementById('corrupt-image').dataset.shown === 'blur masking 0.45 false'");
    set(browser, "#corrupt-t", "0.5");
    browser.wait("document.getElementById('corrupt-image').dataset.shown === 'blur masking 0.5 false'");
    keep(browser, "corrupt");
}

fn schedule(browser: &Browser) {
    click(browser, "nav a[href='#schedule']");
    browser.wait("document.querySelectorAll('#schedule-charts svg').length === 2");
    browser.run("const s = document.querySelector('#schedule-form [name=model]'); s.selectedIndex = 1; s.dispatchEvent(new Event('change', { bubbles: true }));");
    browser.wait("document.querySelectorAll('#schedule-charts svg').length === 3");
    // The policy lets colours through.
    let colour = browser.run("return getComputedStyle(document.querySelector('#schedule-charts .series')).stroke;");
    assert_eq!(colour, "rgb(11, 107, 203)");
    keep(browser, "schedule");
}

fn sample(browser: &Browser) {
    click(browser, "nav a[href='#sample']");
    browser.wait("document.querySelector('#sample-form [name=model]').options.length > 0");
    // The recipe's own sampler and steps, and none that the blur refuses.
    browser.wait("document.querySelectorAll('#sample-samplers input').length > 0");
    let offered = browser.run("return [...document.querySelectorAll('#sample-samplers input')].map((i) => i.value);");
    assert!(offered.to_string().contains("momentum") && !offered.to_string().contains("\"ddim\""), "{offered}");
    let chosen = browser.run("return [...document.querySelectorAll('#sample-samplers :checked')].map((i) => i.value);");
    assert_eq!(chosen, serde_json::json!(["heun"]));
    click(browser, "#sample-samplers [value=momentum]");
    set(browser, "#sample-form [name=steps]", "24");
    click(browser, "#sample-form button");
    browser.wait("document.getElementById('sample-status').textContent === 'Done.'");
    let images = browser.run("return [...document.querySelectorAll('#sample-lanes img')].map((i) => i.src);");
    let images = images.as_array().unwrap();
    assert!(images.len() == 4 && images.iter().all(|source| source.as_str().unwrap().len() > 100), "{}", images.len());
    assert_ne!(images[0], images[2], "two samplers, two results");
    let files = browser.run("return [...document.querySelectorAll('#sample-lanes a')].map((a) => a.download);");
    assert!(files[0].as_str().unwrap().ends_with("-momentum-seed-0.png"), "{files}");
    assert!(files[1].as_str().unwrap().ends_with("-heun-seed-0.png"), "{files}");
    let saved =
        "return [...document.querySelectorAll('#sample-lanes a')].every((a) => a.href.startsWith('data:image/png'));";
    assert_eq!(browser.run(saved), true);
    set(browser, "#sample-scrub", "10");
    let looked: Value = browser.run("return document.querySelector('#sample-lanes .facts').textContent;");
    assert!(looked.as_str().unwrap().starts_with("step 10,"), "{looked}");
    keep(browser, "sample");
    // A long one is stopped.
    set(browser, "#sample-form [name=steps]", "1000");
    click(browser, "#sample-form button");
    browser.wait("document.getElementById('sample-status').textContent.includes(' of 2000')");
    click(browser, "#sample-form [name=cancel]");
    browser.wait("document.getElementById('sample-status').textContent === 'Stopped.'");
}

fn restore(browser: &Browser) {
    click(browser, "nav a[href='#restore']");
    browser.wait("document.querySelector('#restore-form [name=model]').options.length > 0");
    set(browser, "#restore-form [name=steps]", "30");
    click(browser, "#restore-form button");
    browser.wait("document.getElementById('restore-status').textContent === 'Done.'");
    assert_eq!(browser.run("return document.querySelectorAll('#restore-results img').length;"), 7);
    let files = browser.run("return [...document.querySelectorAll('#restore-results a')].map((a) => a.download);");
    assert_eq!((files.as_array().unwrap().len(), files[1].as_str()), (7, Some("image-mean.png")));
    browser.looks(1100, 1000, false);
    keep(browser, "restore");
    // A rectangle is drawn with the pointer; the numbers follow, and can be typed.
    set(browser, "#restore-form [name=task]", "inpaint");
    browser.wait("document.querySelector('#restore-hole').width > 0");
    browser.run(
        "const hole = document.querySelector('#restore-hole'); hole.scrollIntoView({ block: 'center' });
         hole.setPointerCapture = () => {}; const box = hole.getBoundingClientRect();
         for (const [kind, x, y] of [['down', .25, .5], ['move', .75, .75], ['up', .75, .75]])
           hole.dispatchEvent(new PointerEvent('pointer' + kind,
             { clientX: box.left + x * box.width, clientY: box.top + y * box.height, pointerId: 1, bubbles: true }));",
    );
    let numbers = browser.run("return ['left', 'top', 'width', 'height'].map((n) => +document.querySelector('#restore-form').elements[n].value);");
    assert_eq!(numbers, serde_json::json!([7, 14, 14, 7]));
    set(browser, "#restore-form [name=height]", "9");
    click(browser, "#restore-form button");
    browser.wait("document.getElementById('restore-status').textContent === 'Done.'");
    keep(browser, "inpaint");
    // The factor; the blur and what lies beyond the border.
    for (task, fields) in [("super-resolve", 1), ("deblur", 2)] {
        set(browser, "#restore-form [name=task]", task);
        let asked = browser
            .run("return [...document.querySelectorAll('#restore-form [data-task]')].filter((p) => !p.hidden).length;");
        assert_eq!(asked, fields);
    }
    browser.looks(1100, 760, false);
}

fn runs(browser: &Browser, evil: bool) {
    browser.looks(1100, 760, true);
    click(browser, "nav a[href='#runs']");
    browser.wait("document.querySelectorAll('#runs-chart svg').length === 1");
    browser.wait("[...document.querySelectorAll('#runs-previews img')].every((i) => i.naturalWidth > 0)");
    if evil {
        let name = browser.run("return document.querySelector('#runs-list label').textContent;");
        assert_eq!(name, EVIL);
    }
    assert_eq!(browser.run("return document.title;"), "Runs – softdiff studio");
    assert_eq!(browser.run("return getComputedStyle(document.body).backgroundColor;"), "rgb(22, 24, 28)");
    keep(browser, "runs");
}

/// On a telephone nothing lies beyond the edge, and every control has a name.
fn narrow(browser: &Browser) {
    browser.looks(390, 800, false);
    for page in ["corrupt", "schedule", "sample", "restore", "runs"] {
        click(browser, &format!("nav a[href='#{page}']"));
        browser.wait(&format!("!document.getElementById('page-{page}').hidden"));
        let width = browser.run("return document.documentElement.scrollWidth;");
        assert!(width.as_u64().unwrap() <= 390, "{page} is {width} pixels wide");
        keep(browser, &format!("narrow-{page}"));
    }
    let nameless = browser.run(
        "return [...document.querySelectorAll('input, select, button')].filter((c) =>
           !c.textContent.trim() && !c.closest('label') && !c.getAttribute('aria-label')).length;",
    );
    assert_eq!(nameless, 0);
}
