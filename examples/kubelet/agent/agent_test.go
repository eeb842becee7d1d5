package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigErrorsNameTheField(t *testing.T) {
	full := configOf("/d", noRuntime)
	zero := Config{Connect: full.Connect}
	zero.Flags, zero.Kubelet.PodLogsDir = full.Flags, full.Kubelet.PodLogsDir
	a, err := New(zero)
	require.NoError(t, err)
	full.Kubelet.EvictionHard = nil
	require.Equal(t, full.Kubelet, a.cfg.Kubelet, "zeros of the configuration get their defaults")
	_, err = New(Config{ShutdownTimeout: -1})
	require.ErrorContains(t, err, "Config.ShutdownTimeout")
	_, err = New(Config{})
	for _, field := range []string{"Flags.NodeName", "Flags.RootDir", "Kubelet.PodLogsDir", "Connect"} {
		require.ErrorContains(t, err, "Config."+field)
	}
}

func running(t *testing.T, a *Agent, during func()) {
	defer apitest.Run(t, a.Run)()
	during()
}

// An agent retries an unavailable runtime with growing pauses, reports the error in its health, and
// stops cleanly between attempts.
func TestConnectIsRetried(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		a, err := New(configOf(dir, func(context.Context) (*Connection, error) {
			tries = append(tries, time.Now())
			return nil, errors.New("runtime unix:///x: Version: no such file")
		}))
		require.NoError(t, err)
		running(t, a, func() {
			time.Sleep(20*time.Second - time.Millisecond)
			require.False(t, a.Health()[0].OK)
			require.Contains(t, a.Health()[0].Message, "unix:///x: Version")
		})
		require.Len(t, tries, 9)
		require.Equal(t, 100*time.Millisecond, tries[1].Sub(tries[0]))
		require.Equal(t, 5*time.Second, tries[8].Sub(tries[7]))
	})
}

// Two agents with one root folder would stop each other's pods: the second gets an error that names
// the first.
func TestRootFolderInUse(t *testing.T) {
	cfg := configOf(t.TempDir(), noRuntime)
	first, err := New(cfg)
	require.NoError(t, err)
	second, err := New(cfg)
	require.NoError(t, err)
	running(t, first, func() {
		require.Eventually(t, func() bool { return strings.Contains(first.Health()[0].Message, "no runtime") }, time.Minute, time.Millisecond)
		err = second.Run(t.Context())
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, fmt.Sprintf("root folder %s: in use by another agent, process %d", cfg.Flags.RootDir, os.Getpid()))
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, second.Run(ended), "the root folder is unlocked")
}

// A link in the place of the lock file is refused, and its target is not created.
func TestLinkedLockFileIsRefused(t *testing.T) {
	f, target := folders{root: t.TempDir()}, filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.Symlink(target, filepath.Join(f.root, "podwright.lock")))
	_, err := f.lock()
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NoFileExists(t, target)
}

// The removal of the root folder is logged within seconds, once.
func TestRootFolderIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(root string) error{
		"folder": os.RemoveAll,
		"file":   func(root string) error { return os.Remove(filepath.Join(root, "podwright.lock")) },
		"replaced by another folder": func(root string) error {
			return errors.Join(os.RemoveAll(root), folders{root: root}.prepare())
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t.TempDir(), noRuntime)
			synctest.Test(t, func(t *testing.T) {
				var log lockedBuffer
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				a, err := New(cfg)
				require.NoError(t, err)
				root := func() server.Check {
					checks := a.Health()
					return checks[len(checks)-1]
				}
				running(t, a, func() {
					time.Sleep(2 * rootPeriod)
					require.Equal(t, server.Check{Name: "root", OK: true}, root())
					require.NoError(t, remove(cfg.Flags.RootDir))
					time.Sleep(rootPeriod + time.Second)
					require.False(t, root().OK)
					require.Contains(t, root().Message, cfg.Flags.RootDir+": the root folder was removed")
					time.Sleep(2 * rootPeriod)
					require.Equal(t, 1, log.count("the root folder was removed"))
				})
			})
		})
	}
}

// A35: an agent that cannot create or share its root folder ends and records an event about the
// Node. If the API server is unavailable, too, the agent still ends soon.
func TestSetupFails(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"made": func(c *Config) { c.Flags.RootDir = filepath.Join(c.Flags.RootDir, "file", "root") },
		"shared": func(c *Config) {
			c.ShareRoot = func(context.Context) error { return errors.New("root folder: read-only") }
		},
	} {
		t.Run(name, func(t *testing.T) { inCluster(t, func(w *world) { setupFails(w, change) }) })
	}
}

func setupFails(w *world, change func(*Config)) {
	cfg := configOf(w.dir, noRuntime)
	require.NoError(w.t, os.Mkdir(cfg.Flags.RootDir, 0o700))
	require.NoError(w.t, os.WriteFile(filepath.Join(cfg.Flags.RootDir, "file"), nil, 0o600))
	cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
	change(&cfg)
	a, err := New(cfg)
	require.NoError(w.t, err)
	err = a.Run(w.t.Context())
	require.ErrorContains(w.t, err, "root folder")
	all := apitest.All[*v1.Event](w.api)
	require.Len(w.t, all, 1)
	require.Equal(w.t, "Warning KubeletSetupFailed "+err.Error(), all[0].Type+" "+all[0].Reason+" "+all[0].Message)
	require.Equal(w.t, v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"}, all[0].InvolvedObject)

	w.api.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Delay: time.Hour} })
	begun := time.Now()
	require.EqualError(w.t, a.Run(w.t.Context()), err.Error())
	require.LessOrEqual(w.t, time.Since(begun), setupEventTimeout)
}

// An Agent can be run again. It takes over the container that its previous run left.
func TestAgentRunsAgain(t *testing.T) {
	n := newPodsNode(t, fake.Config{}, "p")
	closed := 0
	n.cfg.Connect = func(context.Context) (*Connection, error) {
		return &Connection{Runtime: n.rt, Images: n.rt, Name: "fake", Close: func() error { closed++; return nil }}, nil
	}
	a, err := New(n.cfg)
	require.NoError(t, err)
	containers := func() (ids []string) {
		list, err := n.rt.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		for _, c := range list {
			ids = append(ids, c.State.String()+c.Id)
		}
		return ids
	}
	running(t, a, func() { soon(t, func() bool { return runs(a) }) })
	first := containers()
	require.Len(t, first, 1)
	require.Contains(t, first[0], "RUNNING")
	running(t, a, func() { soon(t, func() bool { return runs(a) }) })
	require.Equal(t, first, containers())
	require.Equal(t, 2, closed)
	require.False(t, a.Health()[0].OK)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Run(ctx), "a run with a cancelled context")
	require.Equal(t, first, containers())
}
