package server

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writePodPage writes the page of a report's pods, which have the same name.
func writePodPage(w io.Writer, r Report) error {
	p := &page{}
	p.put(head, r.Pods[0].Namespace+"/"+r.Pods[0].Name+" on "+r.Node)
	for i := range r.Pods {
		p.podHead(&r, &r.Pods[i])
		if i == 0 {
			p.checks(r.Checks)
		}
		p.wholePod(&r, &r.Pods[i])
	}
	p.put("</html>\n")
	_, err := w.Write(p.Bytes())
	return err
}

func (p *page) podHead(r *Report, pod *PodReport) {
	p.headline(pod.Namespace+"/"+pod.Name+" "+podHeadline(pod, r.Time), conditionOf(pod, r.Time).fine())
	p.put("<p class=\"small\"><a href=\"/statusz/pods\">all pods on %s</a> &middot; <a href=\"%s\">as JSON</a> &middot; <span class=\"dim\">%s</span></p>\n", r.Node, podPath(pod)+"&format=json", r.Time.UTC().Format(timeFormat))
}

func (p *page) wholePod(report *Report, r *PodReport) {
	now := report.Time
	if r.LastError != r.Reason {
		p.with(printable(r.LastError), "<p class=\"box\"><b>last error</b>: %s</p>\n")
	}
	p.put("<dl>\n")
	p.line("phase", strings.Trim(r.Phase+": "+r.Reason, ": "))
	p.line("in this state", moments(r.Since, now.Sub(r.Since), "%s, since %s"))
	p.line("now", stepWords(r.Step))
	p.line("waits because", r.Why)
	p.line("not ready because", r.NotReady)
	if r.Worker != "Finished" { // the parts of a finished pod wait for its removal
		p.line("unfinished", strings.Join(partWords(r.Parts), "\n"))
	}
	p.line("waits for", waitWords(r.WaitsFor))
	if r.NextRetry != nil {
		p.line("next try", moments(*r.NextRetry, r.NextRetry.Sub(now), "in %s, at %s"))
	}
	p.line("node", strings.TrimSuffix(report.Node+", address "+r.HostIP, ", address "))
	p.line("pod address", strings.Join(r.PodIPs, ", "))
	p.line("manifest", r.Manifest)
	p.line("log folder", r.LogDir)
	p.line("UID", r.UID)
	p.put("</dl>\n")
	p.containers(r.Containers, now)
	p.logs(r)
	p.events(r.Events, now)
	p.volumes(r.Volumes, now)
	p.probes(r.Probes, now)
}

func (p *page) line(name, text string) {
	if text != "" {
		p.put("<dt>%s<dd>%s\n", name, printable(text))
	}
}

// moments returns the duration and the time, or "" if at is unset.
func moments(at time.Time, d time.Duration, format string) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(format, span(d, at), at.UTC().Format(timeFormat))
}

func (p *page) containers(all []ContainerReport, now time.Time) {
	p.put("<h2>Containers</h2>\n")
	if len(all) == 0 {
		p.put("<p class=\"dim\">no container has started</p>\n")
		return
	}
	p.put("<table>\n<tr><th>Name<th>State<th>Image<th>Restarts<th>Last exit</tr>\n")
	for _, c := range all {
		p.put("<tr><td class=\"wrap\">%s", c.Name)
		p.with(c.Kind, ` <span class="dim">%s</span>`)
		p.put("<td>")
		p.badge(containerColour(c), containerState(c))
		if c.State == "running" && c.Started != nil {
			p.put("<br><span class=\"dim small\">for %s</span>", span(now.Sub(*c.Started), *c.Started))
		}
		p.put("<td class=\"wrap\">%s<td class=\"nowrap\">%s<td class=\"wrap text\">%s</tr>\n", c.Image, restartWords(c.Restarts), printable(lastExit(c, now)))
		if c.State == "waiting" && c.Message != "" {
			p.put("<tr class=\"more\"><td colspan=\"5\" class=\"wrap text\">%s</tr>\n", printable(c.Message))
		}
	}
	p.put("</table>\n")
}

// lastExit returns the newest exit of a container, its time and its message, one per line.
func lastExit(c ContainerReport, now time.Time) string {
	e := c.LastExit
	if e == nil {
		return c.LastEnd
	}
	lines := []string{exitWords(e)}
	if e.At != nil {
		lines = append(lines, moments(*e.At, now.Sub(*e.At), "%s ago, at %s"))
	}
	if message := strings.TrimSpace(e.Message); message != "" {
		lines = append(lines, message)
	}
	return strings.Join(lines, "\n")
}

// logs writes the last lines of each container's log.
func (p *page) logs(r *PodReport) {
	if len(r.Logs) == 0 && r.LogsHidden == "" {
		return
	}
	p.put("<h2>Last log lines</h2>\n")
	p.with(r.LogsHidden, "<p class=\"dim\">Not shown: %s</p>\n")
	for _, l := range r.Logs {
		p.put("<h3>%s", l.Container)
		if l.Previous {
			p.put(" <span class=\"dim\">from the previous run: the current run has no output yet</span>")
		}
		p.put("</h3>\n")
		switch {
		case l.Error != "":
			p.put("<p class=\"box\">%s</p>\n", printable(l.Error))
		case l.Missing:
			p.put("<p class=\"dim\">no log file</p>\n")
		case len(l.Lines) == 0:
			p.put("<p class=\"dim\">no output</p>\n")
		default:
			p.put("<pre>")
			if l.Cut {
				p.put("<span class=\"dim\">(the beginning is cut off)</span>\n")
			}
			p.put("%s</pre>\n", printable(strings.Join(l.Lines, "\n")))
		}
	}
}

func (p *page) events(all []EventReport, now time.Time) {
	if len(all) == 0 {
		return
	}
	p.put("<h2>Recent events</h2>\n<table>\n<tr><th>Time<th>Reason<th>Message</tr>\n")
	for _, e := range all {
		p.put("<tr><td class=\"nowrap\">%s ago", span(now.Sub(e.At), e.At))
		if e.Count > 1 {
			p.put(", %v times", e.Count)
		}
		p.put("<td>")
		colour := ""
		if e.Type == "Warning" {
			colour = "bad"
		}
		p.badge(colour, e.Reason)
		p.put("<td class=\"wrap text\">%s</tr>\n", printable(e.Message))
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
		p.badge(volumeColour(v), volumeWords(v))
		p.put("<td>%s<td class=\"wrap\">%s", v.Plugin, v.WaitsFor)
		if v.RunningSince != nil {
			p.put(", for %s", span(now.Sub(*v.RunningSince), *v.RunningSince))
		}
		if v.Stuck {
			p.put(" ")
			p.badge("bad", "takes too long")
		}
		p.put("<td>")
		if v.NextTry != nil {
			p.put("in %s", span(v.NextTry.Sub(now), *v.NextTry))
		}
		p.put("</tr>\n")
		p.with(printable(v.LastError), "<tr class=\"more\"><td colspan=\"5\"><div class=\"box\">%s</div></tr>\n")
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
	p.put("<h2>Probes</h2>\n<table>\n<tr><th>Container<th>Probe<th>Result<th>Last check<th>State<th>Next check</tr>\n")
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
			p.put("<tr class=\"more\"><td colspan=\"6\" class=\"dim wrap text\">%s</tr>\n", printable(r.Output))
		}
	}
	p.put("</table>\n")
}
