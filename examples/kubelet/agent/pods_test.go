package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// manifestOf is the manifest of a pod.
func manifestOf(name string) []byte {
	return []byte(strings.Replace(manifest, "name: p", "name: "+name, 1))
}

// a node of which the agent and the runtime can be away.
type podsNode struct {
	cfg Config
	dir string
	rt  *fake.Runtime
}

func newPodsNode(t *testing.T, cfg fake.Config, manifests ...string) *podsNode {
	n := &podsNode{dir: t.TempDir()}
	cfg.AnyImage = true
	var err error
	n.rt, err = fake.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.rt.Close()) })
	n.cfg = configOf(n.dir, n.connect)
	n.cfg.Kubelet.StaticPodPath = filepath.Join(n.dir, "manifests")
	require.NoError(t, os.Mkdir(n.cfg.Kubelet.StaticPodPath, 0o700))
	for _, name := range manifests {
		n.put(t, name)
	}
	return n
}

func (n *podsNode) put(t *testing.T, name string) {
	require.NoError(t, os.WriteFile(filepath.Join(n.cfg.Kubelet.StaticPodPath, name+".yaml"), manifestOf(name), 0o600))
}

func (n *podsNode) connect(context.Context) (*Connection, error) {
	return &Connection{Runtime: n.rt, Images: n.rt, Name: "fake", Close: func() error { return nil }}, nil
}

// during runs an agent for as long as the function.
func (n *podsNode) during(t *testing.T, f func(*Agent)) {
	a, err := New(n.cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	f(a)
}

// eventually returns the pods and notes of an agent when they are as they should be.
func eventually(t *testing.T, a *Agent, good func([]v1.Pod, []string) bool) ([]v1.Pod, []string) {
	t.Helper()
	var pods []v1.Pod
	var notes []string
	require.Eventually(t, func() bool {
		var err error
		pods, notes, err = a.Pods()
		return err == nil && good(pods, notes)
	}, 10*time.Second, 5*time.Millisecond)
	return pods, notes
}

// ranOnce has a first agent run the pod p, and returns its status as it was left.
func (n *podsNode) ranOnce(t *testing.T) v1.PodStatus {
	t.Helper()
	n.during(t, func(a *Agent) {
		eventually(t, a, func(pods []v1.Pod, _ []string) bool {
			return len(pods) == 1 && pods[0].Status.Phase == v1.PodRunning
		})
	})
	files, err := filepath.Glob(filepath.Join(n.cfg.Flags.RootDir, "pods", "*", "podwright-status.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	g, err := newGround(n.cfg, folders{root: n.cfg.Flags.RootDir}, noState)
	require.NoError(t, err)
	record, err := g.checkpoint.Load(types.UID(filepath.Base(filepath.Dir(files[0]))))
	require.NoError(t, err)
	return record.Status
}

// As long as the runtime does not answer, whether there is a connection or not, the
// pods of the manifests are shown with what was saved of them, and nothing newer.
func TestPodsWithoutARuntime(t *testing.T) {
	h := &hanging{}
	away := func(context.Context) (*Connection, error) { return nil, errors.New("no socket") }
	for name, lose := range map[string]func(*podsNode){
		"no connection": func(n *podsNode) { n.cfg.Connect = away },
		"hangs":         func(*podsNode) { h.set(everything) },
		"connecting": func(n *podsNode) {
			n.cfg.Connect = func(ctx context.Context) (*Connection, error) { <-ctx.Done(); return nil, ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.set(nil)
			n := newPodsNode(t, fake.Config{Intercept: h.intercept}, "p")
			saved := n.ranOnce(t)
			require.Equal(t, v1.PodRunning, saved.Phase)
			n.put(t, "q")
			lose(n)
			n.during(t, func(a *Agent) {
				pods, notes := eventually(t, a, func(pods []v1.Pod, _ []string) bool { return len(pods) == 2 })
				require.Equal(t, saved.ContainerStatuses[0].ContainerID, pods[0].Status.ContainerStatuses[0].ContainerID)
				require.Equal(t, saved, pods[0].Status)
				require.Equal(t, v1.PodPending, pods[1].Status.Phase)
				require.Empty(t, pods[1].Status.ContainerStatuses)
				if name != "hangs" { // else the workers have begun
					require.Equal(t, []string{"pods that nobody has looked at yet: 2; their statuses are those that were saved, or Pending"}, notes)
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

// A saved status that is damaged costs that pod what was known, and is in the log.
func TestPodsWithADamagedStatus(t *testing.T) {
	n := newPodsNode(t, fake.Config{}, "p")
	n.ranOnce(t)
	files, err := filepath.Glob(filepath.Join(n.cfg.Flags.RootDir, "pods", "*", "podwright-status.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], []byte("{"), 0o600))
	n.cfg.Connect = func(context.Context) (*Connection, error) { return nil, errors.New("no socket") }
	var log bytes.Buffer
	n.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n.during(t, func(a *Agent) {
		pods, _ := eventually(t, a, func(pods []v1.Pod, _ []string) bool { return len(pods) == 1 })
		require.Equal(t, v1.PodPending, pods[0].Status.Phase)
	})
	require.Equal(t, 1, strings.Count(log.String(), "is lost"), log.String())
}

// What turns out to be wrong with a manifest when its pod starts names the file, and the
// field by its path.
func TestWrongFieldsOfPodsThatStart(t *testing.T) {
	n := newPodsNode(t, fake.Config{})
	wrong := strings.Replace(manifest, "image: busybox}", "image: busybox, volumeMounts: [{name: v, mountPath: /v}]}", 1)
	wrong = strings.Replace(wrong, "spec: {", "spec: {volumes: [{name: v, hostPath: {path: /proc, type: File}}], ", 1)
	file := filepath.Join(n.cfg.Kubelet.StaticPodPath, "w.yaml")
	require.NoError(t, os.WriteFile(file, []byte(wrong), 0o600))
	var log lockedBuffer
	n.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool { return log.count("reason=FailedMount") > 0 }, 10*time.Second, time.Millisecond)
		const want = `spec.volumes[0].hostPath.type: "File": /proc: path is not of the volume's type: it is d---------`
		report := a.Report().Pods[0].Volumes
		require.Len(t, report, 1)
		require.Contains(t, report[0].LastError, want)
		require.NotNil(t, report[0].NextTry)
		require.Equal(t, file, a.Report().Pods[0].Manifest)
		require.Positive(t, log.count("manifest="+file))
	})
}

// Of two sources one says nothing: the pods of the other are shown and run, and it is
// said that the list is not complete.
func TestOneOfTwoSourcesIsSilent(t *testing.T) {
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
				_, notes := eventually(t, a, func(pods []v1.Pod, notes []string) bool {
					return len(pods) == 1 && pods[0].Status.Phase == v1.PodRunning && len(notes) == 1
				})
				require.Equal(t, []string{`the pods of source "` + silent + `" have not been read: pods that only they name are missing`}, notes)
				require.Eventually(t, func() bool { return len(a.Report().Manifests) == 1 }, 10*time.Second, 5*time.Millisecond)
			})
		})
	}
}

// A path that manifests or objects cannot be read from is in the health, with and without a
// runtime, until it answers. The other check does not suffer.
func TestSourcesThatDoNotAnswerAreInTheHealth(t *testing.T) {
	away := func(context.Context) (*Connection, error) { return nil, errors.New("no socket") }
	for _, connected := range []bool{true, false} {
		for check, other := range map[string]string{"manifests": "objects", "objects": "manifests"} {
			t.Run(fmt.Sprintf("%s, connected %t", check, connected), func(t *testing.T) {
				t.Parallel()
				n := newPodsNode(t, fake.Config{})
				if !connected {
					n.cfg.Connect = away
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
					get := func(name string) string {
						w := httptest.NewRecorder()
						server.Healthz(a).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz/"+name, nil))
						return w.Body.String()
					}
					reaches := func(text string) {
						require.EventuallyWithT(t, func(t *assert.CollectT) {
							assert.Equal(t, connected, get("ping") == "ok", "what is asked for only once there is a runtime")
							assert.Contains(t, get(check), text)
							assert.Equal(t, "ok", get(other))
						}, 10*time.Second, 5*time.Millisecond)
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
