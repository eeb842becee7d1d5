package server

import (
	"html/template"
	"io"
	"time"
)

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="5">
<title>Pods on {{.Node}}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: #222 }
h1 { font-size: 1.3em } h2 { font-size: 1.05em; margin-top: 2em }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35em .8em .35em 0; border-top: 1px solid #ddd }
tr.error td { border-top: none; padding-top: 0 }
th { font-weight: 600; color: #555; white-space: nowrap }
.bad { color: #a40000 } .dim { color: #777 } td.wrap { overflow-wrap: anywhere }
</style>
<h1>Pods on {{.Node}}</h1>
<p>{{range .Checks}}{{if .OK}}{{.Name}} ok{{else}}<span class="bad">{{.Name}}: {{.Message}}</span>{{end}} &middot; {{end}}<span class="dim">{{stamp .Time}}</span></p>
<table>
<tr><th>Pod<th>Phase<th>Worker<th>Since<th>Doing, or waiting for<th>Next look<th>Containers</tr>
{{$now := .Time}}{{range .Pods}}<tr>
<td>{{.Namespace}}/{{.Name}}<br><span class="dim">{{.UID}}</span>
<td>{{.Phase}}
<td>{{.Worker}}
<td>{{age $now .Since}}
<td class="wrap">{{.Step}}{{with .Why}} {{.}}{{end}}{{with .NotReady}} <span class="dim">not ready: {{.}}</span>{{end}}{{if .WaitsFor}} <span class="dim">waits for {{.WaitsFor}}</span>{{end}}
<td>{{with .NextRetry}}in {{until $now .}}{{end}}
<td class="wrap">{{range .Containers}}{{with .Kind}}{{.}} {{end}}{{.Name}}: {{.State}}{{if .Reason}} ({{.Reason}}){{end}}{{if .Restarts}}, {{.Restarts}} restarts{{end}}{{with .LastEnd}}<br><span class="dim">ended before: {{.}}</span>{{end}}<br>{{end}}
{{range .Probes}}<span class="dim">{{.Container}}, {{.Type}} by {{.Handler}}:</span> {{if eq .Result "Failure"}}<span class="bad">{{.Result}}</span>{{else}}{{.Result}}{{end}}{{with .Why}} <span class="dim">({{.}})</span>{{end}}{{if .Last}}<br><span class="dim">last {{.Last}}{{with .LastAt}} {{age $now .}} ago{{end}}{{if .Threshold}}, {{.Consecutive}} of {{.Threshold}}{{end}}{{with .Output}}: {{.}}{{end}}</span>{{end}}<br>{{end}}
</tr>{{with .LastError}}
<tr class="error"><td><td colspan="6" class="bad wrap">{{.}}</tr>{{end}}{{else}}<tr><td colspan="7" class="dim">no pods</td></tr>{{end}}
</table>
<p class="dim">{{range .Probers}}{{if or .Queued .Stuck}}<span class="bad">{{.Handler}} probes: {{.Running}} of {{.Budget}} run, {{.Slow}} of them slow, {{.Stuck}} stuck; {{.Queued}} wait, up to {{.Late}} s</span><br>{{end}}{{end}}</p>
{{if .Manifests}}<h2>Manifests that are not used as they stand</h2>
<table>
<tr><th>File<th>Why<th>Since<th>Previous version</tr>
{{range .Manifests}}<tr><td>{{.Path}}<td class="bad wrap">{{.Message}}<td>{{age $now .Since}}<td>{{if .KeptPrevious}}keeps running{{else}}none{{end}}</tr>
{{end}}</table>{{end}}
</html>
`

func writePage(w io.Writer, r Report) error {
	t, err := template.New("pods").Funcs(template.FuncMap{
		"age":   func(now, then time.Time) string { return span(now.Sub(then), then) },
		"until": func(now time.Time, then *time.Time) string { return span(then.Sub(now), *then) },
		"stamp": func(t time.Time) string { return t.Format(time.RFC3339) },
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// span rounds a duration to what a person reads; nothing for an unset moment.
func span(d time.Duration, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(d, 0).Round(time.Second).String()
}
