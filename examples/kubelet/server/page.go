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
h1 { font-size: 1.4em; margin: 0 0 .3em; overflow-wrap: anywhere } h2 { font-size: 1.05em; margin: 2em 0 .4em }
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
	p.put("<h1>Pods on %s</h1>\n", r.Node)
	p.checks(r)
	p.put("<table>\n<tr><th class=\"pod\">Pod<th>Phase<th class=\"containers\">Containers<th class=\"doing\">Doing, or waiting for<th>Since<th>Next look</tr>\n")
	for i := range r.Pods {
		p.pod(&r.Pods[i], r.Time)
	}
	if len(r.Pods) == 0 {
		p.put(`<tr><td colspan="6" class="dim">no pods</td></tr>`)
	}
	p.put("\n</table>\n")
	p.probers(r.Probers)
	p.manifests(r.Manifests, r.Time)
	p.objects(r.Objects)
	p.put("</html>\n")
	_, err := w.Write(p.Bytes())
	return err
}

func (p *page) checks(r Report) {
	p.put("<p>")
	for _, c := range r.Checks {
		if c.OK {
			p.badge("good", c.Name+" ok")
		}
	}
	phases := map[string]int{}
	for _, pod := range r.Pods {
		phases[pod.Phase]++
	}
	for _, phase := range sortedKeys(phases) {
		if phase != "" {
			p.badge("", fmt.Sprintf("%d %s", phases[phase], phase))
		}
	}
	p.put("<span class=\"dim small\">%s</span></p>\n", r.Time.Format(time.RFC3339))
	for _, c := range r.Checks {
		if !c.OK {
			p.put("<p class=\"box\"><b>%s</b>: %s</p>\n", c.Name, c.Message)
		}
	}
}

// pod writes a row of the table, and a second one for the newest error.
func (p *page) pod(r *PodReport, now time.Time) {
	p.put("<tr>\n<td class=\"wrap\"><a href=\"%s\">%s/%s</a>\n", podPath(r), r.Namespace, r.Name)
	p.put("<td>")
	p.phase(r)
	p.put("\n<td>")
	for _, c := range r.Containers {
		p.container(c)
	}
	p.put("\n<td class=\"wrap text\">")
	for i, text := range doing(r) {
		if i > 0 {
			p.put("\n")
		}
		p.put("%s", text)
	}
	p.put("\n<td>%s\n<td>", span(now.Sub(r.Since), r.Since))
	if r.NextRetry != nil {
		p.put("in %s", span(r.NextRetry.Sub(now), *r.NextRetry))
	}
	p.put("</tr>\n")
	p.with(r.LastError, "<tr class=\"more\"><td colspan=\"6\"><div class=\"box\">%s</div></tr>\n")
}

func podPath(r *PodReport) string {
	return "/statusz/pods/" + url.PathEscape(r.Namespace) + "/" + url.PathEscape(r.Name) + "?uid=" + url.QueryEscape(r.UID)
}

func (p *page) phase(r *PodReport) {
	colours := map[string]string{"Running": "good", "Succeeded": "good", "Failed": "bad", "Pending": "wait"}
	p.badge(colours[r.Phase], r.Phase)
	if r.Worker != "Syncing" {
		p.badge("wait", r.Worker)
	}
	if r.NotReady != "" && r.Phase == "Running" {
		p.badge("wait", "not ready")
	}
}

// doing returns the pod's current work, or the reasons of its wait, one per line.
func doing(r *PodReport) []string {
	lines := []string{r.Step, r.Why}
	if r.WaitsFor != "" {
		lines = append(lines, "waits for "+r.WaitsFor)
	}
	for _, v := range r.Volumes {
		if v.WaitsFor != "" {
			lines = append(lines, "volume "+v.Name+" waits for "+v.WaitsFor)
		}
	}
	for _, probe := range r.Probes {
		if probe.Result == "Failure" {
			lines = append(lines, strings.ToLower(probe.Type)+" probe of "+probe.Container+" fails")
		}
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

func (p *page) container(c ContainerReport) {
	text := strings.TrimSpace(c.Kind+" "+c.Name) + ": " + c.State
	if c.Reason != "" {
		text += ", " + c.Reason
	}
	if c.Restarts > 0 {
		text += fmt.Sprintf(", %d×", c.Restarts)
	}
	p.badge(containerColour(c), text)
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
	p.put("<h2>Manifests that are not used as they stand</h2>\n<table>\n<tr><th>File<th>Why<th>Since<th>Previous version</tr>\n")
	for _, m := range problems {
		previous := "none"
		if m.KeptPrevious {
			previous = "keeps running"
		}
		p.put("<tr><td class=\"wrap\">%s<td class=\"bad wrap\">%s<td>%s<td>%s</tr>\n", m.Path, m.Message, span(now.Sub(m.Since), m.Since), previous)
	}
	p.put("</table>\n")
}

func (p *page) objects(problems []ObjectProblem) {
	if len(problems) == 0 {
		return
	}
	p.put("<h2>Objects that are not used as they stand</h2>\n<table>\n<tr><th>File<th>Why<th>Previous version</tr>\n")
	for _, o := range problems {
		previous := "none"
		if o.KeptPrevious {
			previous = "is used"
		}
		p.put("<tr><td class=\"wrap\">%s<td class=\"bad wrap\">%s<td>%s</tr>\n", o.Path, o.Message, previous)
	}
	p.put("</table>\n")
}

// span rounds a duration for display. It returns "" for an unset time.
func span(d time.Duration, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(d, 0).Round(time.Second).String()
}
