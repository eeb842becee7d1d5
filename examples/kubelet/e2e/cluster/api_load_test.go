package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/streams"
)

var sessionsFor = flag.Duration("sessions", 10*time.Second, "duration of the sessions of TestManySessions")

// direct is a client of the kubelet's port.
type direct struct {
	t        *testing.T
	n        *node
	url      string
	http     *http.Client
	sessions *streams.Client
}

func (n *node) direct(t *testing.T) *direct {
	t.Helper()
	secure := credentials(t, n.Kubeconfig)
	secure.InsecureSkipVerify = true // its certificate is self-signed
	secure.NextProtos = []string{"http/1.1"}
	d := &direct{t: t, n: n, sessions: &streams.Client{TLS: secure}}
	d.http = &http.Client{Transport: &http.Transport{TLSClientConfig: secure, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}}
	t.Cleanup(d.http.CloseIdleConnections)
	d.url = "https://" + n.get(t, "node", n.name, `{.status.addresses[?(@.type=="InternalIP")].address}:{.status.daemonEndpoints.kubeletEndpoint.Port}`)
	return d
}

func (d *direct) open(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return nil, err
	}
	return d.http.Do(request)
}

// text returns a whole response body with any status.
func (d *direct) text(path string) (string, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), waitTimeout)
	defer cancel()
	response, err := d.open(ctx, path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func (d *direct) log(pod, container, query string) string {
	return "/containerLogs/" + d.n.namespace + "/" + pod + "/" + container + "?" + query
}

func (d *direct) exec(pod, container, query string) string {
	return d.url + "/exec/" + d.n.namespace + "/" + pod + "/" + container + "?" + query
}

// usage is the resource usage of the agent's process.
type usage struct {
	goroutines, descriptors int
	// heap is the size in use after a collection, resident the kernel's figure, in bytes.
	heap, resident int
}

func (h usage) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, heap %.1f MiB, resident %.1f MiB", h.goroutines, h.descriptors, float64(h.heap)/(1<<20), float64(h.resident)/(1<<20))
}

var (
	goroutines = regexp.MustCompile(`goroutine profile: total (\d+)`)
	heapInUse  = regexp.MustCompile(`# HeapAlloc = (\d+)`)
	resident   = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
)

func (d *direct) usage() usage {
	d.t.Helper()
	number := func(pattern *regexp.Regexp, text string, err error) int {
		require.NoError(d.t, err)
		found := pattern.FindStringSubmatch(text)
		require.NotNil(d.t, found, "%s in %.200s", pattern, text)
		n, err := strconv.Atoi(found[1])
		require.NoError(d.t, err)
		return n
	}
	profile := func(path string) (string, error) { return d.text("/debug/pprof/" + path) }
	heap, heapErr := profile("heap?gc=1&debug=1")
	all, allErr := profile("goroutine?debug=1")
	process := fmt.Sprintf("/proc/%d", d.n.cmd.Process.Pid)
	status, statusErr := os.ReadFile(process + "/status")
	descriptors, err := os.ReadDir(process + "/fd")
	require.NoError(d.t, err)
	return usage{
		number(goroutines, all, allErr), len(descriptors), number(heapInUse, heap, heapErr), 1024 * number(resident, string(status), statusErr),
	}
}

// waitUsage waits until the agent's usage is back at before, within tolerances.
func (d *direct) waitUsage(before usage) {
	d.t.Helper()
	var now usage
	d.n.until(d.t, "the agent's usage is as before, within tolerances", func() error {
		d.http.CloseIdleConnections()
		if now = d.usage(); now.goroutines > before.goroutines+10 || now.descriptors > before.descriptors+10 || now.heap > before.heap+(8<<20) {
			return fmt.Errorf("%s; before: %s", now, before)
		}
		return nil
	})
	d.t.Logf("afterwards: %s", now)
}

// latency returns the time from kubectl apply to Running, as shown by the API: the median of three
// pods.
func (n *node) latency(t *testing.T, prefix string) time.Duration {
	t.Helper()
	var all []time.Duration
	for i := range 3 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		begin := time.Now()
		n.apply(t, boundPod(name, "\n  containers: ["+runningContainer+"}]"))
		for n.get(t, "pod", name, "{.status.phase}") != "Running" {
			require.Less(t, time.Since(begin), waitTimeout)
			time.Sleep(10 * time.Millisecond)
		}
		all = append(all, time.Since(begin))
		n.do(t, "delete", "pod", name, "--wait=false")
	}
	slices.Sort(all)
	return all[1]
}

var sessionPods = boundPod("a", `
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'trap "exit 0" TERM; i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done']}
  - {name: quiet, image: BUSYBOX, command: [sh, -c, 'echo begun; trap "exit 0" TERM; while :; do sleep 0.5; done']}`) + boundPod("flood", `
  containers:
  - {name: c, image: BUSYBOX, command: [sh, -c, 'x=$(head -c 1000 /dev/zero | tr "\\0" x); for i in $(seq 20000); do echo $x; done; trap "exit 0" TERM; while :; do for i in 1 2 3 4; do echo $x; done; sleep 0.05; done']}`)

// 200 log followers and 50 sessions run at a time. All receive their own data, the agent continues
// with its pods, and afterwards no resource of the sessions remains.
func TestManySessions(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, sessionPods)
		n.ready(t, "a")
		d := n.direct(t)
		before, quiet := d.usage(), n.latency(t, "before")
		t.Logf("before: %s", before)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var followers, lines, echoes atomic.Int64
		failed := make(chan error, 250)
		for range 200 {
			all.Go(func() {
				k, err := d.follow(ctx, func() { followers.Add(1) })
				lines.Add(int64(k))
				if err == nil && k == 0 {
					err = errors.New("a follower received no line")
				}
				failed <- err
			})
		}
		for range 50 {
			all.Go(func() {
				var err error
				for err == nil && ctx.Err() == nil {
					if err = d.echo(ctx); err == nil {
						echoes.Add(1)
					}
				}
				if ctx.Err() != nil { // cut in the middle of a session
					err = nil
				}
				failed <- err
			})
		}
		end := time.After(*sessionsFor)
		busy := n.latency(t, "during")
		t.Logf("during: %s", d.usage())
		<-end
		n.until(t, "all followers have a line, and a session has ended", func() error {
			if len(failed) == 0 && (followers.Load() < 200 || echoes.Load() == 0) {
				return fmt.Errorf("%d followers, %d sessions", followers.Load(), echoes.Load())
			}
			return nil
		})
		cancel()
		all.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
		t.Logf("%d lines, %d exec sessions; a pod runs %s after its apply, %s during the sessions", lines.Load(), echoes.Load(), quiet, busy)
		d.waitUsage(before)
	})
}

// follow follows a log until ctx ends, and counts its lines. It calls begun at the first line.
func (d *direct) follow(ctx context.Context, begun func()) (lines int, err error) {
	response, err := d.open(ctx, d.log("a", "c", "follow=true&tailLines=1"))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(response.Status)
	}
	reader := bufio.NewScanner(response.Body)
	last := 0
	for reader.Scan() {
		number, err := strconv.Atoi(strings.TrimPrefix(reader.Text(), "line "))
		if err != nil || (last != 0 && number != last+1) {
			return lines, fmt.Errorf("%q after %d", reader.Text(), last)
		}
		last = number
		if lines++; lines == 1 {
			begun()
		}
	}
	if ctx.Err() == nil {
		return lines, fmt.Errorf("the log has ended: %w", reader.Err())
	}
	return lines, nil
}

// echo sends data through a session and back five times.
func (d *direct) echo(ctx context.Context) error {
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		code, err := d.sessions.Exec(ctx, d.exec("a", "quiet", "command=cat&input=1&output=1"), streams.Session{Stdin: in, Stdout: out})
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		_ = out.CloseWithError(errors.New("the session has ended"))
		_ = in.CloseWithError(errors.New("the session has ended"))
		ended <- err
	}()
	back := bufio.NewReader(read)
	for i := range 5 {
		text := fmt.Sprintf("%d\n", i)
		_, err := io.WriteString(write, text)
		got := ""
		if err == nil {
			got, err = back.ReadString('\n')
		}
		if err == nil && got != text {
			err = fmt.Errorf("sent %q, received %q", text, got)
		}
		if err != nil {
			return errors.Join(err, write.Close(), <-ended)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return errors.Join(write.Close(), <-ended)
}

// stuckWriter accepts one write and then blocks until its context ends.
type stuckWriter struct {
	ctx     context.Context
	blocked chan struct{}
	once    sync.Once
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.blocked) })
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// Some clients never read, never close, request missing objects, or exceed the limit of sessions,
// and pods disappear during sessions. The agent serves all other clients meanwhile, reports the
// limit, and finally frees all resources.
func TestHostileSessions(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		n.apply(t, sessionPods)
		n.ready(t, "a")
		n.ready(t, "flood")
		d := n.direct(t)
		before := d.usage()
		t.Logf("before: %s", before)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup

		// Floods without a reader.
		for range 20 {
			response, err := d.open(ctx, d.log("flood", "c", "follow=true"))
			require.NoError(t, err)
			defer response.Body.Close()
			require.Equal(t, http.StatusOK, response.StatusCode)
		}
		for range 10 {
			out := &stuckWriter{ctx: ctx, blocked: make(chan struct{})}
			all.Go(func() {
				_, _ = d.sessions.Exec(ctx, d.exec("a", "quiet", "command=yes&output=1"), streams.Session{Stdout: out}) // interrupted by the test
			})
			<-out.blocked
		}
		d.requireServed()

		// Missing objects.
		for path, want := range map[string]string{
			d.log("a", "none", "follow=true"): "has no container", d.log("none", "c", ""): "not on this node", d.log("a", "c", "previous=true"): "no previous instance",
		} {
			text, err := d.text(path)
			require.NoError(t, err)
			require.Contains(t, text, want)
		}
		_, err := d.sessions.Exec(ctx, d.exec("a", "none", "command=ls&output=1"), streams.Session{Stdout: io.Discard})
		require.ErrorContains(t, err, "has no container")

		// A pod disappears: its followers receive the end of the log, including unread lines.
		followed := make(chan error, 1)
		response, err := d.open(ctx, d.log("flood", "c", "follow=true&tailLines=1"))
		require.NoError(t, err)
		defer response.Body.Close()
		go func() {
			_, err := io.Copy(io.Discard, response.Body)
			followed <- err
		}()
		session := make(chan error, 1)
		go func() {
			_, err := d.sessions.Exec(ctx, d.exec("flood", "c", "command=sleep&command=3600&output=1"), streams.Session{Stdout: io.Discard})
			session <- err
		}()
		n.do(t, "delete", "pod", "flood", "--wait=false")
		n.waitDeleted(t, "pod", "flood")
		require.NoError(t, <-followed)
		<-session // the runtime's result does not matter
		d.requireServed()

		// Too many sessions.
		bound, opened := "", 0
		for bound == "" {
			require.Less(t, opened, 1100, "the number of sessions is not limited")
			response, err := d.open(ctx, d.log("a", "quiet", "follow=true"))
			require.NoError(t, err)
			defer response.Body.Close()
			if response.StatusCode == http.StatusTooManyRequests {
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				bound = string(text)
			}
			opened++
		}
		require.Contains(t, bound, "too many open sessions and log readers (limit 1000)")
		require.Greater(t, opened, 900)
		require.Equal(t, "ok", n.do(t, "get", "--raw", "/api/v1/nodes/"+n.name+"/proxy/healthz"))
		t.Logf("with %d readers: %s; a pod runs %s after its apply", opened, d.usage(), n.latency(t, "during"))
		cancel()
		all.Wait()
		d.waitUsage(before)
		d.requireServed()
	})
}

// requireServed checks that other clients are served.
func (d *direct) requireServed() {
	d.t.Helper()
	require.Equal(d.t, "begun\n", d.n.do(d.t, "logs", "a", "-c", "quiet"))
	var out bytes.Buffer
	code, err := d.sessions.Exec(d.t.Context(), d.exec("a", "c", "command=echo&command=hello&output=1"), streams.Session{Stdout: &out})
	require.NoError(d.t, err)
	require.Zero(d.t, code)
	require.Equal(d.t, "hello\n", out.String())
}
