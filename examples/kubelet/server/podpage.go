package server

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// writePodPage writes the page of a report's pods, which have the same name.
func writePodPage(w io.Writer, r Report) error {
	p := &page{}
	p.put(head, r.Pods[0].Namespace+"/"+r.Pods[0].Name+" on "+r.Node)
	json := "?format=json"
	if len(r.Pods) == 1 {
		json = podPath(&r.Pods[0]) + "&format=json"
	}
	p.put("<p class=\"small\"><a href=\"/statusz/pods\">all pods on %s</a> &middot; <a href=\"%s\">as JSON</a> &middot; <span class=\"dim\">%s</span></p>\n", r.Node, json, r.Time.Format(time.RFC3339))
	for _, c := range r.Checks {
		if !c.OK {
			p.put("<p class=\"box\"><b>%s</b>: %s</p>\n", c.Name, c.Message)
		}
	}
	for i := range r.Pods {
		p.wholePod(&r.Pods[i], r.Time)
	}
	p.put("</html>\n")
	_, err := w.Write(p.Bytes())
	return err
}

func (p *page) wholePod(r *PodReport, now time.Time) {
	p.put("<h1>%s/%s</h1>\n<p>", r.Namespace, r.Name)
	p.phase(r)
	p.put("</p>\n")
	p.with(r.LastError, "<p class=\"box\"><b>last error</b>: %s</p>\n")
	p.put("<dl>\n")
	p.line("UID", r.UID)
	p.line("manifest", r.Manifest)
	p.line("worker", r.Worker)
	p.line("doing", r.Step)
	p.line("since", moments(r.Since, now.Sub(r.Since), "for %s"))
	p.line("not all runs because", r.Why)
	p.line("not ready because", r.NotReady)
	p.line("not ready parts", strings.Join(r.Parts, "\n"))
	p.line("waits for", r.WaitsFor)
	if r.NextRetry != nil {
		p.line("next look", moments(*r.NextRetry, r.NextRetry.Sub(now), "in %s"))
	}
	p.put("</dl>\n")
	p.containers(r.Containers)
	p.volumes(r.Volumes, now)
	p.probes(r.Probes, now)
}

func (p *page) line(name, text string) {
	if text != "" {
		p.put("<dt>%s<dd>%s\n", name, text)
	}
}

// moments returns the duration and the time, or "" if at is unset.
func moments(at time.Time, d time.Duration, format string) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(format, span(d, at)) + " (" + at.UTC().Format(time.RFC3339) + ")"
}

func (p *page) containers(all []ContainerReport) {
	p.put("<h2>Containers</h2>\n")
	if len(all) == 0 {
		p.put("<p class=\"dim\">none has been seen yet</p>\n")
		return
	}
	p.put("<table>\n<tr><th>Name<th>State<th>Restarts<th>The run before<th>What is said of it</tr>\n")
	for _, c := range all {
		p.put("<tr><td>%s", c.Name)
		p.with(c.Kind, ` <span class="dim">%s</span>`)
		p.put("<td>")
		p.badge(containerColour(c), c.State)
		p.put("%s<td>%v<td class=\"wrap\">%s<td class=\"wrap text\">%s</tr>\n", c.Reason, c.Restarts, c.LastEnd, c.Message)
	}
	p.put("</table>\n")
}

func (p *page) volumes(all []VolumeReport, now time.Time) {
	if len(all) == 0 {
		return
	}
	p.put("<h2>Volumes</h2>\n<table>\n<tr><th>Name<th>State<th>Plugin<th>Waits for<th>Next try</tr>\n")
	for _, v := range all {
		p.put("<tr><td class=\"wrap\">%s<td>", v.Name)
		p.badge(volumeColour(v), v.State)
		p.put("<td>%s<td class=\"wrap\">%s", v.Plugin, v.WaitsFor)
		if v.RunningSince != nil {
			p.put(" (%s, for %s)", v.Operation, span(now.Sub(*v.RunningSince), *v.RunningSince))
		}
		if v.Stuck {
			p.put(" ")
			p.badge("bad", "should have ended")
		}
		p.put("<td>")
		if v.NextTry != nil {
			p.put("in %s", span(v.NextTry.Sub(now), *v.NextTry))
		}
		p.put("</tr>\n")
		p.with(v.LastError, "<tr class=\"more\"><td colspan=\"5\"><div class=\"box\">%s</div></tr>\n")
	}
	p.put("</table>\n")
}

func volumeColour(v VolumeReport) string {
	switch {
	case v.LastError != "" || v.Stuck:
		return "bad"
	case v.Ready:
		return "good"
	}
	return "wait"
}

func (p *page) probes(all []ProbeReport, now time.Time) {
	if len(all) == 0 {
		return
	}
	p.put("<h2>Probes</h2>\n<table>\n<tr><th>Container<th>Probe<th>Counts as<th>Found last<th>Does<th>Next</tr>\n")
	colours := map[string]string{"Success": "good", "Failure": "bad", "Unknown": "wait"}
	for _, r := range all {
		p.put("<tr><td>%s<td>%s by %s<br><span class=\"dim small\">every %v s, within %v s</span><td>", r.Container, r.Type, r.Handler, r.Period, r.Timeout)
		p.badge(colours[r.Result], r.Result)
		p.put("<td>%s", r.Last)
		if r.LastAt != nil {
			p.put(" %s ago", span(now.Sub(*r.LastAt), *r.LastAt))
		}
		if r.Last != "" && r.Threshold > 0 {
			p.put(", %v of %v", r.Consecutive, r.Threshold)
		}
		p.put("<td class=\"wrap\">%s", r.State)
		p.with(r.Why, `: %s`)
		p.put("<td>")
		if r.Next != nil {
			p.put("in %s", span(r.Next.Sub(now), *r.Next))
		}
		p.put("</tr>\n")
		if r.Output != "" {
			p.put("<tr class=\"more\"><td colspan=\"6\" class=\"dim wrap text\">%s</tr>\n", r.Output)
		}
	}
	p.put("</table>\n")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
