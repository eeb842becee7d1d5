package garbage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/pleg/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podsStub writes down what it is asked for.
type podsStub struct {
	mu   sync.Mutex
	done []string
	fail error // what nothing is stopped for
	// stays is why a container, or a sandbox, is not removed.
	stays map[string]error
	// logs and links are the folders of these; "" is none.
	logs, links string
}

func (p *podsStub) StopContainer(_ context.Context, _ labels.Pod, name, _ string, gracefully bool) error {
	p.done = append(p.done, fmt.Sprint("stop ", name, " ", gracefully))
	return p.fail
}

func (p *podsStub) RemoveContainer(_ context.Context, _ labels.Pod, name, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, "remove "+name)
	return p.stays[name]
}

func (p *podsStub) RemoveSandbox(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, "remove sandbox "+id)
	return p.stays[id]
}

func (p *podsStub) Files() podfiles.Layout {
	return podfiles.Layout{LogRoot: p.logs, LinkDir: p.links}
}
func (p *podsStub) Retain(map[string]bool) {}
func (p *podsStub) Forget(uid types.UID)   { p.done = append(p.done, "forget "+string(uid)) }

func collectorOf(t *testing.T, pods Pods) *Collector {
	c, err := New(Config{Runtime: struct{ cri.RuntimeService }{}, Pods: pods})
	require.NoError(t, err)
	return c
}

func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Runtime": {Pods: &podsStub{}},
		"Pods":    {Runtime: struct{ cri.RuntimeService }{}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field+" is required")
	}
}

// What nobody knows the state of is stopped before it is removed, and stays if it
// does not stop.
func TestUnknownIsStopped(t *testing.T) {
	pods := &podsStub{}
	c := collectorOf(t, pods)
	unknown := container{unit: unit{uid: "1", name: "a"}, id: "x", state: observed.StateUnknown}
	for _, stays := range []bool{false, true} {
		require.NoError(t, c.collectContainer(t.Context(), unknown, stays))
		require.Equal(t, []string{fmt.Sprint("stop a ", stays), "remove a"}, pods.done)
		pods.done = nil
	}
	unknown.state = observed.StateExited
	require.NoError(t, c.collectContainer(t.Context(), unknown, true))
	require.Equal(t, []string{"remove a"}, pods.done)

	unknown.state, pods.done, pods.fail = observed.StateUnknown, nil, errors.New("away")
	require.ErrorIs(t, c.collectContainer(t.Context(), unknown, true), pods.fail)
	require.Equal(t, []string{"stop a true"}, pods.done)
}

// Of each container's instances, newest first, the first ones are kept; what has not
// exited is not counted and stays.
func TestCleanDeadContainers(t *testing.T) {
	status := &observed.Pod{UID: "1", Name: "pod", Namespace: "ns"}
	for _, name := range []string{"a", "a", "a", "b"} {
		status.Containers = append(status.Containers, observed.Container{Name: name, State: observed.StateExited})
	}
	status.Containers = append([]observed.Container{{Name: "a", State: observed.StateRunning}, {Name: "b", State: observed.StateUnknown}}, status.Containers...)
	for _, tc := range []struct {
		request CleanRequest
		want    []string
	}{
		{CleanRequest{}, []string{"remove a", "remove a"}},
		{CleanRequest{Keep: 2}, []string{"remove a"}},
		{CleanRequest{Keep: 3}, nil},
		{CleanRequest{Keep: 3, All: true}, []string{"remove a", "remove a", "remove a", "remove b"}},
	} {
		pods := &podsStub{}
		c := collectorOf(t, pods)
		tc.request.Status = status
		require.NoError(t, c.CleanDeadContainers(t.Context(), tc.request))
		require.Equal(t, tc.want, pods.done)
	}
}

// One that cannot be removed keeps no other, and is told.
func TestCleanDeadContainersGoesOn(t *testing.T) {
	stuck := errors.New("stuck")
	pods := &podsStub{stays: map[string]error{"a": stuck}}
	c := collectorOf(t, pods)
	status := &observed.Pod{UID: "1", Name: "pod", Namespace: "ns", Containers: []observed.Container{
		{Name: "a", State: observed.StateExited}, {Name: "b", State: observed.StateExited},
	}}
	err := c.CleanDeadContainers(t.Context(), CleanRequest{Status: status, All: true})
	require.ErrorIs(t, err, stuck)
	require.ErrorContains(t, err, "clean dead containers of pod ns/pod")
	require.Equal(t, []string{"remove a", "remove b"}, pods.done)
	for _, nobody := range []*observed.Pod{nil, {Name: "pod"}} {
		require.ErrorContains(t, c.CleanDeadContainers(t.Context(), CleanRequest{Status: nobody}), "required")
	}
}

// A pod goes container by container, then its sandboxes, and is forgotten when nothing of it
// is left; what may run keeps all that comes after it.
func TestRemovePod(t *testing.T) {
	stuck := errors.New("stuck")
	of := func(state observed.State) *observed.Pod {
		return &observed.Pod{
			UID: "1", Name: "pod", Namespace: "ns", Sandboxes: []observed.Sandbox{{ID: "s1"}, {ID: "s2"}},
			Containers: []observed.Container{{Name: "a", State: state}, {Name: "b", State: observed.StateExited}},
		}
	}
	containers, sandboxes := []string{"remove a", "remove b"}, []string{"remove sandbox s1", "remove sandbox s2"}
	for name, c := range map[string]struct {
		uid    types.UID
		status *observed.Pod
		stays  map[string]error
		done   []string
		is     error  // what the error is, if any
		text   string // what it says
	}{
		"stopped":          {"1", of(observed.StateExited), nil, slices.Concat([]string{"forget 1"}, containers, sandboxes), nil, ""},
		"never started":    {"1", of(observed.StateCreated), nil, slices.Concat([]string{"forget 1"}, containers, sandboxes), nil, ""},
		"runs":             {"1", of(observed.StateRunning), nil, []string{"remove b"}, ErrRunning, "container a"},
		"may run":          {"1", of(observed.StateUnknown), nil, []string{"remove b"}, ErrRunning, "container a"},
		"container stays":  {"1", of(observed.StateExited), map[string]error{"a": stuck}, containers, stuck, "remove pod ns/pod"},
		"sandbox stays":    {"1", of(observed.StateExited), map[string]error{"s1": stuck}, slices.Concat(containers, sandboxes), stuck, "remove pod ns/pod"},
		"of another pod":   {"2", of(observed.StateExited), nil, nil, nil, "the status is of another pod"},
		"without a status": {"1", nil, nil, nil, nil, "the Status is required"},
		"of nobody":        {"", &observed.Pod{}, nil, nil, nil, "Status.UID is required"},
	} {
		t.Run(name, func(t *testing.T) {
			pods := &podsStub{stays: c.stays}
			err := collectorOf(t, pods).RemovePod(t.Context(), c.uid, c.status)
			require.ElementsMatch(t, c.done, pods.done)
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.text)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

// A pod whose logs stay is not forgotten.
func TestRemovePodWhoseLogsStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	pods := &podsStub{logs: file}
	c := collectorOf(t, pods)
	err := c.RemovePod(t.Context(), "1", &observed.Pod{UID: "1", Name: "pod", Namespace: "ns", Sandboxes: []observed.Sandbox{{ID: "s1"}}})
	require.ErrorContains(t, err, "remove pod ns/pod")
	require.ErrorContains(t, err, "logs: open "+file)
	require.Equal(t, []string{"remove sandbox s1"}, pods.done)
}
