package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/server"
)

const manifest = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: busybox}]}}`

type podsNode struct {
	cfg Config
	dir string
	rt  *fake.Runtime
	log *lockedBuffer
}

func newPodsNode(t *testing.T, cfg fake.Config, manifests ...string) *podsNode {
	n := &podsNode{dir: t.TempDir(), log: &lockedBuffer{}}
	cfg.AnyImage = true
	var err error
	n.rt, err = fake.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.rt.Close()) })
	n.cfg = configOf(n.dir, n.connect)
	n.cfg.Logger = slog.New(slog.NewTextHandler(n.log, nil))
	n.cfg.Kubelet.StaticPodPath = filepath.Join(n.dir, "manifests")
	require.NoError(t, os.Mkdir(n.cfg.Kubelet.StaticPodPath, 0o700))
	for _, name := range manifests {
		n.put(t, strings.Replace(manifest, "name: p", "name: "+name, 1))
	}
	return n
}

func (n *podsNode) put(t *testing.T, text string) (file string) {
	_, name, _ := strings.Cut(text, "metadata: {name: ")
	file = name[:1] + ".yaml"
	put(t, n.cfg.Kubelet.StaticPodPath, file, text)
	return filepath.Join(n.cfg.Kubelet.StaticPodPath, file)
}

func put(t *testing.T, dir, file, text string) {
	t.Helper()
	path := filepath.Join(dir, file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func (n *podsNode) connect(context.Context) (*Connection, error) {
	return &Connection{Runtime: n.rt, Images: n.rt, Name: "fake", Close: func() error { return nil }}, nil
}

func (n *podsNode) during(t *testing.T, f func(*Agent)) {
	a, err := New(n.cfg)
	require.NoError(t, err)
	running(t, a, func() { f(a) })
}

func soon(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 5*time.Millisecond)
}

// runs reports whether the agent has exactly one pod, which is running.
func runs(a *Agent) bool {
	pods, _, err := a.Pods()
	return err == nil && len(pods) == 1 && pods[0].Status.Phase == v1.PodRunning
}

// An empty list of pods means that there are no pods; until the pods are known, there is an error
// instead. Pods can come from a web server that requires a header. The report lists problems of
// their manifests.
func TestManifestURL(t *testing.T) {
	var body atomic.Value
	body.Store("")
	asked := make(chan struct{})
	var once sync.Once
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		text := body.Load().(string)
		switch {
		case r.Header.Get("Authorization") != "Bearer x":
			w.WriteHeader(http.StatusForbidden)
		case text == "":
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = io.WriteString(w, text)
		}
	}))
	defer web.Close()
	n := newPodsNode(t, fake.Config{})
	n.cfg.Kubelet.StaticPodPath = ""
	n.cfg.Kubelet.StaticPodURL, n.cfg.Kubelet.StaticPodURLHeader = web.URL, http.Header{"Authorization": {"Bearer x"}}
	n.cfg.Kubelet.HTTPCheckFrequency.Duration = 20 * time.Millisecond
	a, err := New(n.cfg)
	require.NoError(t, err)
	requireUnknown := func(why string) {
		_, _, err := a.Pods()
		require.EqualError(t, err, "pods not available: "+why)
	}
	requireUnknown("the agent is not running yet")
	running(t, a, func() {
		<-asked
		requireUnknown(`pod source "http" has not been read yet`)
		body.Store(manifest)
		soon(t, func() bool { return runs(a) })
		pods, _, err := a.Pods()
		require.NoError(t, err)
		require.Equal(t, "http", pods[0].Annotations["kubernetes.io/config.source"])
		body.Store("kind: Service")
		soon(t, func() bool { return len(a.Report().Manifests) == 1 })
		problem := a.Report().Manifests[0]
		require.Equal(t, web.URL, problem.Path)
		require.True(t, problem.KeptPrevious)
		require.True(t, runs(a))
	})
	requireUnknown("the agent is stopped")
}

// eventually returns the pods and notes of an agent once they satisfy good.
func eventually(t *testing.T, a *Agent, good func([]v1.Pod, []string) bool) (pods []v1.Pod, notes []string) {
	t.Helper()
	soon(t, func() (ok bool) {
		var err error
		pods, notes, err = a.Pods()
		return err == nil && good(pods, notes)
	})
	return pods, notes
}

// ranOnce runs the pod p with a first agent, and returns its last status.
func (n *podsNode) ranOnce(t *testing.T) v1.PodStatus {
	t.Helper()
	n.during(t, func(a *Agent) { soon(t, func() bool { return runs(a) }) })
	files, err := filepath.Glob(filepath.Join(n.cfg.Flags.RootDir, "pods", "*", "podwright-status.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	in, err := newInputs(&n.cfg, new(connected))
	require.NoError(t, err)
	record, err := in.checkpoint.Load(types.UID(filepath.Base(filepath.Dir(files[0]))))
	require.NoError(t, err)
	return record.Status
}

// While the runtime does not respond, with or without a connection, Pods returns the pods of the
// manifests with their saved statuses.
func TestPodsWithoutARuntime(t *testing.T) {
	h := &hanging{}
	for name, lose := range map[string]func(*podsNode){
		"no connection": func(n *podsNode) { n.cfg.Connect = noRuntime },
		"hangs":         func(*podsNode) { h.set(everything) },
		"connecting":    func(n *podsNode) { n.cfg.Connect = neverConnected },
	} {
		t.Run(name, func(t *testing.T) {
			h.set(nil)
			n := newPodsNode(t, fake.Config{Intercept: h.intercept}, "p")
			saved := n.ranOnce(t)
			require.Equal(t, v1.PodRunning, saved.Phase)
			n.put(t, strings.Replace(manifest, "name: p", "name: q", 1))
			lose(n)
			n.during(t, func(a *Agent) {
				pods, notes := eventually(t, a, func(pods []v1.Pod, _ []string) bool { return len(pods) == 2 })
				require.Equal(t, saved, pods[0].Status)
				require.Equal(t, v1.PodPending, pods[1].Status.Phase)
				require.Empty(t, pods[1].Status.ContainerStatuses)
				// With a hanging runtime the workers have started.
				if name != "hangs" {
					require.Equal(t, []string{"pods not observed yet: 2; they have their saved status, or Pending"}, notes)
				}
				checks := map[string]bool{}
				for _, c := range a.Health() {
					checks[c.Name] = c.OK
				}
				require.False(t, checks["runtime"])
				require.True(t, checks["manifests"])
			})
			h.set(nil)
		})
	}
}

func neverConnected(ctx context.Context) (*Connection, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An error of a manifest that is found at the start of its pod names the file and the path of the
// field.
func TestWrongFieldsOfPodsThatStart(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	file := n.put(t, strings.NewReplacer(
		"image: busybox}", "image: busybox, volumeMounts: [{name: v, mountPath: /v}]}", "spec: {", "spec: {volumes: [{name: v, hostPath: {path: /proc, type: File}}], ",
	).Replace(manifest))
	n.during(t, func(a *Agent) {
		soon(t, func() bool { return n.log.count("reason=FailedMount") > 0 })
		const want = `spec.volumes[0].hostPath.type: "File": /proc: path is not of the volume's type: it is d---------`
		report := a.Report().Pods[0]
		require.Len(t, report.Volumes, 1)
		require.Contains(t, report.Volumes[0].LastError, want)
		require.NotNil(t, report.Volumes[0].NextTry)
		require.Equal(t, file, report.Manifest)
		require.Positive(t, n.log.count("manifest="+file))
	})
}

// If one of two sources has not been read, the pods of the other are listed and run, and a note
// says that the list is incomplete.
func TestOneUnreadSourceOfTwo(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, manifest)
	}))
	defer web.Close()
	for _, silent := range []string{"http", "file"} {
		t.Run(silent, func(t *testing.T) {
			n := newPodsNode(t, fake.Config{}, "p")
			n.cfg.Kubelet.StaticPodURL = web.URL
			if silent == "http" {
				n.cfg.Kubelet.StaticPodURL += "/silent"
			} else {
				n.cfg.Kubelet.StaticPodPath = filepath.Join(n.dir, "pipe")
				require.NoError(t, unix.Mkfifo(n.cfg.Kubelet.StaticPodPath, 0o600))
			}
			n.during(t, func(a *Agent) {
				_, notes := eventually(t, a, func(_ []v1.Pod, notes []string) bool { return runs(a) && len(notes) == 1 })
				require.Equal(t, []string{`pod source "` + silent + `" has not been read yet: their pods are missing`}, notes)
				soon(t, func() bool { return len(a.Report().Manifests) == 1 })
			})
		})
	}
}

// If reading manifests or objects hangs, Health reports it until the read returns, with and without
// a runtime. The other check stays healthy.
func TestHangingSourcesAreUnhealthy(t *testing.T) {
	for _, connected := range []bool{true, false} {
		for check, other := range map[string]string{"manifests": "objects", "objects": "manifests"} {
			t.Run(fmt.Sprintf("%s, connected %t", check, connected), func(t *testing.T) {
				t.Parallel()
				n := newPodsNode(t, fake.Config{})
				if !connected {
					n.cfg.Connect = noRuntime
				}
				n.cfg.Flags.ObjectsDir = t.TempDir()
				pipe := filepath.Join(n.dir, "pipe")
				require.NoError(t, unix.Mkfifo(pipe, 0o600))
				want := "[-]manifests failed: manifest source file: " + pipe + " is a named pipe"
				if check == "manifests" {
					n.cfg.Kubelet.StaticPodPath = pipe
				} else {
					n.cfg.Flags.ObjectsDir, want = pipe, "[-]objects failed: objects: . cannot be read: not a directory"
				}
				n.during(t, func(a *Agent) {
					get := func(name string) string { return body(server.Healthz(a), "/healthz/"+name) }
					reaches := func(text string) {
						require.EventuallyWithT(t, func(t *assert.CollectT) {
							assert.Equal(t, connected, get("ping") == "ok", "checks that need the runtime")
							assert.Contains(t, get(check), text)
							assert.Equal(t, "ok", get(other))
						}, time.Minute, 5*time.Millisecond)
					}
					reaches(want)
					require.NoError(t, os.Remove(pipe))
					require.NoError(t, os.Mkdir(pipe, 0o700))
					reaches("ok")
				})
			})
		}
	}
}

func body(h http.Handler, path string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Body.String()
}
