package server

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"time"
)

const head = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="5">
<title>Pods on %[1]s</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: #222 }
h1 { font-size: 1.3em } h2 { font-size: 1.05em; margin-top: 2em }
table { border-collapse: collapse; width: 100%% }
th, td { text-align: left; vertical-align: top; padding: .35em .8em .35em 0; border-top: 1px solid #ddd }
tr.error td { border-top: none; padding-top: 0 }
th { font-weight: 600; color: #555; white-space: nowrap }
.bad { color: #a40000 } .dim { color: #777 } td.wrap { overflow-wrap: anywhere }
</style>
<h1>Pods on %[1]s</h1>
`

// page is the report for people. It is written without html/template: a program
// that links text/template keeps every exported method of every type, which is
// 5 MB of code in the memory of this one.
type page struct{ bytes.Buffer }

// put writes a format of HTML, with verbs %s and %v only. Its arguments are text,
// which is escaped.
func (p *page) put(format string, args ...any) {
	for i := range args {
		args[i] = html.EscapeString(fmt.Sprint(args[i]))
	}
	fmt.Fprintf(&p.Buffer, format, args...)
}

// with writes the format if there is a text for it.
func (p *page) with(text, format string) {
	if text != "" {
		p.put(format, text)
	}
}

func writePage(w io.Writer, r Report) error {
	p := &page{}
	p.put(head, r.Node)
	p.checks(r)
	p.put("<table>\n<tr><th>Pod<th>Phase<th>Worker<th>Since<th>Doing, or waiting for<th>Next look<th>Containers</tr>\n")
	for i := range r.Pods {
		p.pod(&r.Pods[i], r.Time)
	}
	if len(r.Pods) == 0 {
		p.put(`<tr><td colspan="7" class="dim">no pods</td></tr>`)
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
			p.put("%s ok", c.Name)
		} else {
			p.put(`<span class="bad">%s: %s</span>`, c.Name, c.Message)
		}
		p.put(" &middot; ")
	}
	p.put("<span class=\"dim\">%s</span></p>\n", r.Time.Format(time.RFC3339))
}

func (p *page) pod(r *PodReport, now time.Time) {
	p.put("<tr>\n<td>%s/%s<br><span class=\"dim\">%s</span>\n", r.Namespace, r.Name, r.UID)
	p.with(r.Manifest, "<br><span class=\"dim\">%s</span>\n")
	p.put("<td>%s\n<td>%s\n<td>%s\n", r.Phase, r.Worker, span(now.Sub(r.Since), r.Since))
	p.put(`<td class="wrap">%s`, r.Step)
	p.with(r.Why, " %s")
	p.with(r.NotReady, ` <span class="dim">not ready: %s</span>`)
	p.with(r.WaitsFor, ` <span class="dim">waits for %s</span>`)
	for _, v := range r.Volumes {
		p.volume(v, now)
	}
	p.put("\n<td>")
	if r.NextRetry != nil {
		p.put("in %s", span(r.NextRetry.Sub(now), *r.NextRetry))
	}
	p.put("\n<td class=\"wrap\">")
	for _, c := range r.Containers {
		p.container(c)
	}
	for _, probe := range r.Probes {
		p.probe(probe, now)
	}
	p.put("</tr>\n")
	p.with(r.LastError, "<tr class=\"error\"><td><td colspan=\"6\" class=\"bad wrap\">%s</tr>\n")
}

func (p *page) container(c ContainerReport) {
	p.with(c.Kind, "%s ")
	p.put("%s: %s", c.Name, c.State)
	p.with(c.Reason, " (%s)")
	if c.Restarts > 0 {
		p.put(", %v restarts", c.Restarts)
	}
	p.with(c.LastEnd, `<br><span class="dim">ended before: %s</span>`)
	p.put("<br>\n")
}

// volume shows one that is waited for, or that something is wrong with.
func (p *page) volume(r VolumeReport, now time.Time) {
	if r.WaitsFor == "" && r.LastError == "" {
		return
	}
	p.put("<br>volume %s", r.Name)
	p.with(r.WaitsFor, " waits for %s")
	if r.RunningSince != nil {
		p.put(" (%s, for %s)", r.Operation, span(now.Sub(*r.RunningSince), *r.RunningSince))
	}
	p.with(r.LastError, `: <span class="bad">%s</span>`)
	if r.NextTry != nil {
		p.put(", next try in %s", span(r.NextTry.Sub(now), *r.NextTry))
	}
}

func (p *page) probe(r ProbeReport, now time.Time) {
	p.put(`<span class="dim">%s, %s by %s:</span> `, r.Container, r.Type, r.Handler)
	if r.Result == "Failure" {
		p.put(`<span class="bad">%s</span>`, r.Result)
	} else {
		p.put("%s", r.Result)
	}
	p.with(r.Why, ` <span class="dim">(%s)</span>`)
	if r.Last != "" {
		p.put(`<br><span class="dim">last %s`, r.Last)
		if r.LastAt != nil {
			p.put(" %s ago", span(now.Sub(*r.LastAt), *r.LastAt))
		}
		if r.Threshold > 0 {
			p.put(", %v of %v", r.Consecutive, r.Threshold)
		}
		p.with(r.Output, ": %s")
		p.put("</span>")
	}
	p.put("<br>\n")
}

// probers shows those for which probes wait.
func (p *page) probers(probers []ProberReport) {
	p.put(`<p class="dim">`)
	for _, r := range probers {
		if r.Queued > 0 || r.Stuck > 0 {
			p.put(`<span class="bad">%s probes: %v of %v run, %v of them slow, %v stuck; %v wait, up to %v s</span><br>`,
				r.Handler, r.Running, r.Budget, r.Slow, r.Stuck, r.Queued, r.Late)
		}
	}
	p.put("</p>\n")
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
		p.put("<tr><td>%s<td class=\"bad wrap\">%s<td>%s<td>%s</tr>\n", m.Path, m.Message, span(now.Sub(m.Since), m.Since), previous)
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
		p.put("<tr><td>%s<td class=\"bad wrap\">%s<td>%s</tr>\n", o.Path, o.Message, previous)
	}
	p.put("</table>\n")
}

// span rounds a duration to what a person reads; nothing for an unset moment.
func span(d time.Duration, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(d, 0).Round(time.Second).String()
}
