package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func aReport() Report {
	now := time.Date(2026, 1, 1, 0, 0, 50, 0, time.UTC)
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	return Report{
		Node: "n", Time: now,
		Checks: []Check{{Name: "runtime", OK: true}, {Name: "pleg", Message: "no list for <3m>"}},
		Pods: []PodReport{{
			Namespace: "default", Name: "a", UID: "u-1", Phase: "Running", Worker: "Syncing", Step: "sync: start container c", Since: now.Add(-50 * time.Second), Manifest: "/m/a.yaml",
			LastError: "<b>no</b>", NextRetry: in(10 * time.Second), WaitsFor: "retry", NotReady: "ContainersNotReady: [c]", Why: "container c waits for its back-off", Parts: []string{"stage volumes: preparing for 3s"},
			Probes: []ProbeReport{{
				Container: "c", Type: "Readiness", Handler: "httpGet", State: "Scheduled", Why: "why it waits", Next: in(10 * time.Second), Period: 10, Timeout: 1,
				Result: "Failure", Consecutive: 2, Threshold: 3, Last: "Failure", LastAt: in(-20 * time.Second), LastTook: 0.5, Output: "<i>503",
			}},
			Volumes: []VolumeReport{
				{Name: "fine", Plugin: "kubernetes.io/secret", State: "Mounted", Ready: true},
				{Name: "conf", Plugin: "kubernetes.io/configmap", State: "NotMounted", WaitsFor: "the next try", LastError: "<conf> not found", NextTry: in(30 * time.Second)},
				{Name: "nfs", Plugin: "kubernetes.io/nfs", State: "Uncertain", WaitsFor: "mount", Operation: "volume_mount", RunningSince: in(-20 * time.Second), Stuck: true},
			},
			Containers: []ContainerReport{
				{Name: "setup", Kind: "init", State: "terminated", Reason: "Completed"},
				{Name: "c", State: "waiting", Reason: "CrashLoopBackOff", Message: "back-off 40s", Restarts: 3, LastEnd: "exit code 7 (Error)"},
			},
		}, {Namespace: "default", Name: "a", UID: "u-2", Worker: "Terminating"}, {Namespace: "kube-system", Name: "b", UID: "u-3", Phase: "Pending", Worker: "Syncing"}},
		Manifests: []ManifestProblem{{Path: "/m/bad.yaml", Message: "kind: missing", KeptPrevious: true}},
		Objects:   []ObjectProblem{{Path: "/o/bad.yaml", Message: "data: unknown", KeptPrevious: true}},
		Probers: []ProberReport{
			{Handler: "exec", Budget: 10, Running: 10, Slow: 7, Stuck: 1, Queued: 4, Late: 2.5},
			{Handler: "httpGet", Budget: 24, Running: 3},
		},
	}
}

func TestReportForPrograms(t *testing.T) {
	s := fixed{report: aReport()}
	var got Report
	require.NoError(t, json.Unmarshal(get(ReadOnly(s, Measures{}), "/statusz/pods", "*/*").Body.Bytes(), &got))
	require.Equal(t, s.report, got)
	got = Report{}
	require.NoError(t, json.Unmarshal(get(ReadOnly(s, Measures{}), "/statusz/pods/default/a?uid=u-1", "").Body.Bytes(), &got))
	require.Equal(t, s.report.Pods[:1], got.Pods)
	require.Equal(t, "application/json", get(ReadOnly(s, Measures{}), "/statusz/pods?format=json", "text/html").Header().Get("Content-Type"))
}

func TestPageOfAllPods(t *testing.T) {
	s := fixed{report: aReport()}
	page := get(ReadOnly(s, Measures{}), "/statusz/pods", "text/html,application/xhtml+xml").Body.String()
	for _, want := range []string{
		`href="/statusz/pods/default/a?uid=u-1">default/a</a>`, "c: waiting, CrashLoopBackOff, 3×", "init setup: terminated, Completed", "sync: start container c", "container c waits for its back-off", "in 10s", "50s", "waits for retry", "not ready<",
		"readiness probe of c fails", "volume conf waits for the next try", "exec probes: 10 of 10 run, 7 of them slow, 1 stuck; 4 wait, up to 2.5 s", "/o/bad.yaml", "is used", "/m/bad.yaml", "keeps running", "&lt;b&gt;no",
		"runtime ok", "no list for &lt;3m&gt;", "1 Running", "1 Pending", "Terminating",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "httpGet probes", "nothing waits there")
	require.NotContains(t, page, "volume fine")
	require.Contains(t, get(ReadOnly(s, Measures{}), "/statusz/pods?format=html", "").Body.String(), "<html")
	require.Contains(t, get(ReadOnly(fixed{}, Measures{}), "/statusz/pods?format=html", "").Body.String(), "no pods")
}

func TestPageOfOnePod(t *testing.T) {
	s := fixed{report: aReport()}
	page := get(api(t, func(c *APIConfig) { c.Source = s }), "/statusz/pods/default/a?uid=u-1&format=html", "").Body.String()
	for _, want := range []string{
		"<h1>default/a</h1>", "u-1", "/m/a.yaml", "sync: start container c", "for 50s (2026-01-01T00:00:00Z)", "container c waits for its back-off", "ContainersNotReady: [c]", "in 10s (2026-01-01T00:01:00Z)", "&lt;b&gt;no&lt;/b&gt;",
		"stage volumes: preparing for 3s", "CrashLoopBackOff<td>3<td class=\"wrap\">exit code 7 (Error)<td class=\"wrap text\">back-off 40s", "kubernetes.io/secret", "fine", "&lt;conf&gt; not found", "in 30s", "mount (volume_mount, for 20s)", "should have ended",
		"Readiness by httpGet", "every 10 s, within 1 s", "Failure 20s ago, 2 of 3", "Scheduled: why it waits", "&lt;i&gt;503", "no list for &lt;3m&gt;",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "u-2")
	page = get(ReadOnly(s, Measures{}), "/statusz/pods/default/a", "text/html").Body.String()
	require.Contains(t, page, "u-1")
	require.Contains(t, page, "u-2", "all of one name")
	for _, path := range []string{"/statusz/pods/default/x", "/statusz/pods/x/a", "/statusz/pods/default/a?uid=u-3"} {
		require.Equal(t, http.StatusNotFound, get(ReadOnly(s, Measures{}), path, "text/html").Code, path)
	}
}

// A page loads no external resources, and texts of pods are escaped.
func TestPagesAreSafe(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror='a()'>&amp;` + "\x00\x1b[31m"
	now := time.Now()
	r := Report{Node: evil, Time: now, Checks: []Check{{Name: evil, Message: evil}, {Name: evil, OK: true}}, Manifests: []ManifestProblem{{Path: evil, Message: evil}}, Objects: []ObjectProblem{{Path: evil, Message: evil}},
		Probers: []ProberReport{{Handler: evil, Queued: 1}}, Pods: []PodReport{{Namespace: evil, Name: evil, UID: evil, Manifest: evil, Phase: evil, Worker: evil, Step: evil, Why: evil, Parts: []string{evil}, LastError: evil, WaitsFor: evil, NotReady: evil, NextRetry: &now,
			Containers: []ContainerReport{{Name: evil, Kind: evil, State: evil, Reason: evil, Message: evil, LastEnd: evil}},
			Volumes:    []VolumeReport{{Name: evil, Plugin: evil, State: evil, WaitsFor: evil, Operation: evil, RunningSince: &now, LastError: evil}},
			Probes:     []ProbeReport{{Container: evil, Type: evil, Handler: evil, State: evil, Why: evil, Result: evil, Last: evil, Output: evil}}}}}
	var all, one bytes.Buffer
	require.NoError(t, writePage(&all, r))
	require.NoError(t, writePodPage(&one, r))
	for _, page := range []string{all.String(), one.String()} {
		for _, never := range []string{"<script", "<img", "<link", "<iframe", "http://", "https://", "@import", "url("} {
			require.NotContains(t, page, never)
		}
	}
	header := get(ReadOnly(fixed{report: aReport()}, Measures{}), "/statusz/pods", "text/html").Header()
	require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
}

func TestZpages(t *testing.T) {
	h := api(t, nil)
	flags := get(h, "/flagz", "")
	require.Equal(t, "text/plain; charset=utf-8", flags.Header().Get("Content-Type"))
	require.Regexp(t, `(?s)^\nkubelet flagz\n.*\n\naddress=a\nport=1\n$`, flags.Body.String())
	require.Regexp(t, `(?s)^\nkubelet statusz\n.*\n\nStarted: .*\nUp: 0 hr 00 min 0\d sec\nGo version: go1.*\nBinary version: v1.2.3\+x\nEmulation version: 1.2\nPaths: /attach /checkpoint /configz .* /flagz /healthz .* /statusz\n$`, get(h, "/statusz", "text/html, */*;q=0.8").Body.String())

	w := get(h, "/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io")
	require.JSONEq(t, `{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kubelet"},"flags":{"address":"a","port":"1"}}`, w.Body.String())
	require.Empty(t, w.Header().Get("Warning"))
	w = get(h, "/statusz", "application/yaml, application/json;v=v1alpha1;g=config.k8s.io;as=Statusz")
	var page statuszPage
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
	require.Equal(t, "config.k8s.io/v1alpha1", page.APIVersion)
	require.Equal(t, "1.2", page.EmulationVersion)
	require.Contains(t, page.Paths, "/logs")
	require.Contains(t, w.Header().Get("Warning"), "299")
	for _, accept := range []string{"application/json", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io", "application/json;as=Flagz;v=v2;g=config.k8s.io", "application/vnd.kubernetes.protobuf", "nonsense;;", "text/plain;as=Flagz"} {
		require.Equal(t, http.StatusNotAcceptable, get(h, "/flagz", accept).Code, accept)
	}
}
