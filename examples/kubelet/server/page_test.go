package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func aReport() Report {
	now := time.Date(2026, 1, 1, 0, 0, 50, 0, time.UTC)
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	return Report{
		Node: "n", Version: "v1.2.3+x", Time: now,
		Checks: []Check{{Name: "runtime", OK: true}, {Name: "pleg", Message: "no list for <3m>"}},
		Pods: []PodReport{{
			Namespace: "default", Name: "a", UID: "u-1", Phase: "Running", Worker: "Syncing", Step: "SyncPod: start container c", Since: now.Add(-50 * time.Second), Manifest: "/m/a.yaml",
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
				{Name: "c", State: "waiting", Reason: "CrashLoopBackOff", Message: "back-off 40s", Restarts: 3, LastEnd: "exit code 7 (Error)", Image: "registry.example/c:1",
					LastExit: &ExitReport{Code: 137, Reason: "Error", Message: "<u>bye", At: in(-30 * time.Second), Cause: "killed: liveness probe failed"}},
				{Name: "d", State: "running", Started: in(-40 * time.Second), Restarts: 1},
			},
			HostIP: "192.0.2.1", PodIPs: []string{"10.0.0.7", "fd00::7"}, LogDir: "/var/log/pods/default_a_u-1",
			Logs: []LogReport{
				{Container: "c", Lines: []string{"first <line>", "\x1b[31mlast line\x1b[0m"}, Previous: true, Cut: true},
				{Container: "d"}, {Container: "f", Missing: true}, {Container: "e", Error: "the log folder does not respond"},
			},
			Events: []EventReport{{Type: "Warning", Reason: "Unhealthy", Message: "Liveness probe failed: <500>", Container: "c", Count: 4, At: now.Add(-31 * time.Second)}},
		}, {Namespace: "default", Name: "a", UID: "u-2", Worker: "Terminating"}, {Namespace: "kube-system", Name: "b", UID: "u-3", Phase: "Pending", Worker: "Syncing"}},
		Manifests: []ManifestProblem{{Path: "/m/bad.yaml", Message: "kind: missing", KeptPrevious: true}},
		Objects:   []ObjectProblem{{Path: "/o/bad.yaml", Message: "data: unknown", KeptPrevious: true}},
		Probers: []ProberReport{
			{Handler: "exec", Budget: 10, Running: 10, Slow: 7, Stuck: 1, Queued: 4, Late: 2.5},
			{Handler: "httpGet", Budget: 24, Running: 3},
		},
	}
}

func TestReportAsJSON(t *testing.T) {
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
		`<h1 class="bad">container states not ok, 1 manifest rejected, 1 object file rejected, 1 pod keeps crashing, 1 stopping, 1 starting, 1 probe hangs, 4 probes are late</h1>`,
		`href="/statusz/pods/default/a?uid=u-1">default/a</a>`, "c: waiting, CrashLoopBackOff, restarted 3 times", "d: running, restarted once", "init setup: terminated, Completed", "start container c", "container c waits for its back-off", "in 10s", "50s", "waits for retry",
		"readiness probe of container c fails", "volume conf waits for the next try", "exec probes: 10 of 10 run, 7 of them slow, 1 stuck; 4 wait, up to 2.5 s", "/o/bad.yaml", "the previous version is used", "/m/bad.yaml", "the pod of the previous version keeps running", "&lt;b&gt;no",
		"Passed checks: container runtime", " on n, kubelet v1.2.3+x, ", "no list for &lt;3m&gt;", `<span class="badge bad">keeps crashing</span>`, `<span class="badge wait">stopping</span>`, `<span class="badge wait">starting</span>`,
	} {
		require.Contains(t, page, want)
	}
	require.Less(t, strings.Index(page, "/m/bad.yaml"), strings.Index(page, "default/a"), "rejected manifests are above the pods")
	requireNoInternalTerms(t, page)
	fine := Report{Node: "n", Pods: []PodReport{running1(nil)}}
	require.Contains(t, get(ReadOnly(fixed{report: fine}, Measures{}), "/statusz/pods", "text/html").Body.String(), `<h1 class="good">All fine, 1 pod</h1>`)
	require.NotContains(t, page, "httpGet probes", "no probe waits")
	require.NotContains(t, page, "volume fine")
	require.Contains(t, get(ReadOnly(s, Measures{}), "/statusz/pods?format=html", "").Body.String(), "<html")
	require.Contains(t, get(ReadOnly(fixed{}, Measures{}), "/statusz/pods?format=html", "").Body.String(), "no pods")
}

// requireNoInternalTerms fails if a page has a word of the code.
func requireNoInternalTerms(t *testing.T, page string) {
	t.Helper()
	for _, never := range []string{"SyncPod", "SyncKnownPods", "SyncTerminat", "Syncing", "pleg", "syncloop", ">none<", "×", "1x", "Uncertain", "NotMounted", "stage "} {
		require.NotContains(t, page, never)
	}
}

func TestPageOfOnePod(t *testing.T) {
	s := fixed{report: aReport()}
	page := get(api(t, func(c *APIConfig) { c.Source = s }), "/statusz/pods/default/a?uid=u-1&format=html", "").Body.String()
	for _, want := range []string{
		`<h1 class="bad">default/a keeps crashing: container c restarted 3 times, last exit: exit code 137 (Error), killed: liveness probe failed</h1>`,
		"u-1", "/m/a.yaml", "start container c", "50s, since 2026-01-01 00:00:00 UTC", "container c waits for its back-off", "ContainersNotReady: [c]", "in 10s, at 2026-01-01 00:01:00 UTC", "&lt;b&gt;no&lt;/b&gt;",
		"<dt>node<dd>n, address 192.0.2.1\n", "10.0.0.7, fd00::7", "/var/log/pods/default_a_u-1", "volumes: preparing for 3s", "registry.example/c:1", "restarted 3 times",
		"exit code 137 (Error), killed: liveness probe failed\n30s ago, at 2026-01-01 00:00:20 UTC\n&lt;u&gt;bye", "back-off 40s", "for 40s", "kubernetes.io/secret", "fine", "&lt;conf&gt; not found", "in 30s", "mount, for 20s", "takes too long",
		"first &lt;line&gt;\nlast line</pre>", "from the previous run", "the beginning is cut off", "no output", "no log file", "the log folder does not respond", "31s ago, 4 times", "Liveness probe failed: &lt;500&gt;", `<span class="badge bad">Unhealthy</span>`,
		"Readiness by httpGet", "every 10 s, within 1 s", "Failure 20s ago, 2 of 3", "why it waits", "&lt;i&gt;503", "no list for &lt;3m&gt;",
	} {
		require.Contains(t, page, want)
	}
	requireNoInternalTerms(t, page)
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
	r := Report{Node: evil, Version: evil, Time: now, Checks: []Check{{Name: evil, Message: evil}, {Name: evil, OK: true}}, Manifests: []ManifestProblem{{Path: evil, Message: evil}}, Objects: []ObjectProblem{{Path: evil, Message: evil}},
		Probers: []ProberReport{{Handler: evil, Queued: 1}}, Pods: []PodReport{{Namespace: evil, Name: evil, UID: evil, Manifest: evil, Phase: evil, Worker: evil, Step: evil, Why: evil, Parts: []string{evil}, LastError: evil, WaitsFor: evil, NotReady: evil, NextRetry: &now,
			Containers: []ContainerReport{{Name: evil, Kind: evil, State: evil, Reason: evil, Message: evil, LastEnd: evil, Image: evil, LastExit: &ExitReport{Reason: evil, Message: evil, Cause: evil}}},
			Reason:     evil, HostIP: evil, PodIPs: []string{evil}, LogDir: evil, LogsHidden: evil, Logs: []LogReport{{Container: evil, Lines: []string{evil}}, {Container: evil, Error: evil}},
			Events:  []EventReport{{Type: evil, Reason: evil, Message: evil}},
			Volumes: []VolumeReport{{Name: evil, Plugin: evil, State: evil, WaitsFor: evil, Operation: evil, RunningSince: &now, LastError: evil}},
			Probes:  []ProbeReport{{Container: evil, Type: evil, Handler: evil, State: evil, Why: evil, Result: evil, Last: evil, Output: evil}}}}}
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
