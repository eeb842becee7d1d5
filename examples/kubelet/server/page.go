package server

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

const head = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="5">
<title>%s</title>
<style>
:root { color-scheme: light dark; --dim: #6b7280; --line: #e5e7eb; --bad: #b42318; --badbg: #fdecea; --good: #146c43; --goodbg: #e6f4ec; --wait: #8a5a00; --waitbg: #fff4d6; --plainbg: #eef0f3 }
@media (prefers-color-scheme: dark) { :root { --dim: #9aa3af; --line: #374151; --bad: #ff9c92; --badbg: #4a1d19; --good: #86e0ae; --goodbg: #123d28; --wait: #ffd479; --waitbg: #463406; --plainbg: #2b323d } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1.2em }
h1 { font-size: 1.4em; margin: 0 0 .4em; padding: .5em .7em; border-radius: .4em; overflow-wrap: anywhere } h1.bad { background: var(--badbg) } h1.good { color: var(--good); background: var(--goodbg) } h2 { font-size: 1.05em; margin: 2em 0 .4em }
table { border-collapse: collapse; width: 100%% }
th, td { text-align: left; vertical-align: top; padding: .45em 1em .45em 0; border-top: 1px solid var(--line) }
th { font-weight: 600; color: var(--dim); white-space: nowrap; border-top: none }
th.pod { width: 18%% } th.containers { width: 27%% } th.doing { width: 33%% }
tr.more td { border-top: none; padding-top: 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35em 1.5em; margin: 0 } dt { color: var(--dim) } dd { margin: 0; overflow-wrap: anywhere; white-space: pre-line }
.dim { color: var(--dim) } .small { font-size: .86em } .wrap { overflow-wrap: anywhere } .text { white-space: pre-line }
.badge { display: inline-block; border-radius: .6em; padding: 0 .6em; margin: 0 .3em .2em 0; background: var(--plainbg); white-space: nowrap }
.bad { color: var(--bad) } .badge.bad { background: var(--badbg) } .badge.good { color: var(--good); background: var(--goodbg) } .badge.wait { color: var(--wait); background: var(--waitbg) }
.box { border-left: 3px solid var(--bad); background: var(--badbg); padding: .3em .8em; overflow-wrap: anywhere; white-space: pre-line }
.nowrap { white-space: nowrap } .badge { overflow-wrap: anywhere }
pre { margin: 0; padding: .6em .8em; background: var(--plainbg); font-size: .86em; white-space: pre-wrap; overflow-wrap: anywhere } h3 { font-size: .95em; margin: 1em 0 .3em }
a { color: inherit }
</style>
`

// page is the report as HTML. It does not use html/template: a program that links text/template
// keeps every exported method of every type, which is 5 MB of code in memory.
type page struct{ bytes.Buffer }

// put writes HTML with a format that has the verbs %s and %v only. It escapes its arguments.
func (p *page) put(format string, args ...any) {
	for i := range args {
		args[i] = html.EscapeString(fmt.Sprint(args[i]))
	}
	fmt.Fprintf(&p.Buffer, format, args...)
}

func (p *page) with(text, format string) {
	if text != "" {
		p.put(format, text)
	}
}

// badge writes a word with a colour: "good", "bad", "wait" or none.
func (p *page) badge(colour, text string) {
	if text != "" {
		p.put(`<span class="badge %s">%s</span>`, colour, text)
	}
}

func writePage(w io.Writer, r Report) error {
	p := &page{}
	p.put(head, "Pods on "+r.Node)
	text, fine := headline(r)
	p.headline(text, fine)
	p.put("<p class=\"dim small\">%s on %s, kubelet %s, %s</p>\n", count(len(r.Pods), "pod", "pods"), r.Node, r.Version, r.Time.UTC().Format(timeFormat))
	p.checks(r.Checks)
	p.probers(r.Probers)
	p.manifests(r.Manifests, r.Time)
	p.objects(r.Objects)
	p.put("<h2>Pods</h2>\n<table>\n<tr><th class=\"pod\">Pod<th>State<th class=\"containers\">Containers<th class=\"doing\">Reason<th>For<th>Next try</tr>\n")
	for _, pod := range worstFirst(r.Pods, r.Time) {
		p.pod(&pod, r.Time)
	}
	if len(r.Pods) == 0 {
		p.put(`<tr><td colspan="6" class="dim">no pods</td></tr>`)
	}
	p.put("\n</table>\n")
	p.passed(r.Checks)
	p.put("</html>\n")
	_, err := w.Write(p.Bytes())
	return err
}

// headline writes the first line of a page: red unless everything is fine.
func (p *page) headline(text string, fine bool) {
	colour := "bad"
	if fine {
		colour = "good"
	}
	p.put("<h1 class=\"%s\">%s</h1>\n", colour, text)
}

// checks writes the failed checks.
func (p *page) checks(all []Check) {
	for _, c := range all {
		if !c.OK {
			p.put("<p class=\"box\"><b>%s</b>: %s</p>\n", checkWords(c.Name), printable(c.Message))
		}
	}
}

func (p *page) passed(all []Check) {
	var names []string
	for _, c := range all {
		if c.OK && c.Name != "ping" && c.Name != "log" { // these always pass
			names = append(names, checkWords(c.Name))
		}
	}
	p.with(strings.Join(names, ", "), "<p class=\"dim small\">Passed checks: %s</p>\n")
}

// pod writes a row of the table, and a second one for the newest error.
func (p *page) pod(r *PodReport, now time.Time) {
	name := r.Namespace + "/" + r.Name
	if r.Name == "" {
		p.put("<tr>\n<td class=\"wrap\">UID %s\n<td>", r.UID)
	} else {
		p.put("<tr>\n<td class=\"wrap\"><a href=\"%s\">%s</a>\n<td>", podPath(r), name)
	}
	c := conditionOf(r, now)
	p.badge(c.colour(), c.String())
	p.put("\n<td>")
	for _, c := range r.Containers {
		p.container(c)
	}
	p.put("\n<td class=\"wrap text\">%s", printable(strings.Join(doing(r, now), "\n")))
	p.put("\n<td class=\"nowrap\">%s\n<td class=\"nowrap\">", span(now.Sub(r.Since), r.Since))
	if r.NextRetry != nil && !c.fine() {
		p.put("in %s", span(r.NextRetry.Sub(now), *r.NextRetry))
	}
	p.put("</tr>\n")
	if podReason(r, c, now) == r.LastError || c == crashing && strings.Contains(r.LastError, "CrashLoopBackOff") {
		return // the row has the reason
	}
	p.with(printable(r.LastError), "<tr class=\"more\"><td colspan=\"6\"><div class=\"box\">%s</div></tr>\n")
}

func podPath(r *PodReport) string {
	return "/statusz/pods/" + url.PathEscape(r.Namespace) + "/" + url.PathEscape(r.Name) + "?uid=" + url.QueryEscape(r.UID)
}

// doing returns the reason of a pod's condition and its current work, one per line.
func doing(r *PodReport, now time.Time) []string {
	var lines []string
	if c := conditionOf(r, now); !c.fine() {
		lines = append(lines, podReason(r, c, now))
	}
	lines = append(lines, stepWords(r.Step), r.Why)
	if wait := waitWords(r.WaitsFor); wait != "" {
		lines = append(lines, "waits for "+wait)
	}
	for _, v := range r.Volumes {
		if v.WaitsFor != "" {
			lines = append(lines, "volume "+v.Name+" waits for "+v.WaitsFor)
		}
	}
	for _, probe := range r.Probes {
		if probe.Result == "Failure" {
			lines = append(lines, strings.ToLower(probe.Type)+" probe of container "+probe.Container+" fails")
		}
	}
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(lines, func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
}

func (p *page) container(c ContainerReport) {
	text := strings.TrimSpace(c.Kind+" "+c.Name) + ": " + containerState(c)
	if c.Restarts > 0 {
		text += ", " + restartWords(c.Restarts)
	}
	p.badge(containerColour(c), text)
}

func containerState(c ContainerReport) string {
	text := c.State
	if c.Reason != "" {
		text += ", " + c.Reason
	}
	if c.State == "terminated" && c.LastExit != nil && c.LastExit.Code != 0 {
		text += fmt.Sprintf(", exit code %d", c.LastExit.Code)
	}
	return text
}

func containerColour(c ContainerReport) string {
	switch {
	case c.State == "running", c.Reason == "Completed":
		return "good"
	case c.State == "terminated", strings.Contains(c.Reason, "Err"), strings.Contains(c.Reason, "BackOff"):
		return "bad"
	}
	return "wait"
}

// probers shows the handlers with waiting or stuck probes.
func (p *page) probers(probers []ProberReport) {
	for _, r := range probers {
		if r.Queued > 0 || r.Stuck > 0 {
			p.put(`<p class="box">%s probes: %v of %v run, %v of them slow, %v stuck; %v wait, up to %v s</p>`+"\n",
				r.Handler, r.Running, r.Budget, r.Slow, r.Stuck, r.Queued, r.Late)
		}
	}
}

func (p *page) manifests(problems []ManifestProblem, now time.Time) {
	if len(problems) == 0 {
		return
	}
	p.put("<h2>Rejected manifests</h2>\n<table>\n<tr><th>File<th>Reason<th>For<th>Effect</tr>\n")
	for _, m := range problems {
		p.put("<tr><td class=\"wrap\">%s<td class=\"bad wrap text\">%s<td class=\"nowrap\">%s<td>%s</tr>\n",
			m.Path, printable(m.Message), span(now.Sub(m.Since), m.Since), kept(m.KeptPrevious, "the pod of the previous version keeps running", "its pod does not run"))
	}
	p.put("</table>\n")
}

func (p *page) objects(problems []ObjectProblem) {
	if len(problems) == 0 {
		return
	}
	p.put("<h2>Rejected object files</h2>\n<table>\n<tr><th>File<th>Reason<th>Effect</tr>\n")
	for _, o := range problems {
		p.put("<tr><td class=\"wrap\">%s<td class=\"bad wrap text\">%s<td>%s</tr>\n", o.Path, printable(o.Message), kept(o.KeptPrevious, "the previous version is used", "the object is missing"))
	}
	p.put("</table>\n")
}

func kept(previous bool, yes, no string) string {
	if previous {
		return yes
	}
	return no
}

const timeFormat = "2006-01-02 15:04:05 UTC"

// span returns a duration with its two largest units. It returns "" for an unset time.
func span(d time.Duration, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	d = max(d, 0).Round(time.Second)
	switch hours := int(d.Hours()); {
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case hours < 24:
		return fmt.Sprintf("%dh %dm", hours, int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd %dh", hours/24, hours%24)
	}
}
