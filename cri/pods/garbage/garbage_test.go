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
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/pleg/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podsStub records the calls.
type podsStub struct {
	owner string // "" owns unlabelled pods
	mu    sync.Mutex
	done  []string
	fail  error // returned by StopContainer
	// stays has the errors of removals.
	stays map[string]error
	// logs and links are folders. "" disables them.
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
	return podfiles.Layout{Owner: cri.Owner{Name: p.owner, Unlabelled: p.owner == ""}, LogRoot: p.logs, LinkDir: p.links}
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

// A container in unknown state is stopped before its removal, and stays if the stop fails.
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

// The newest exited instances of each container are kept. Instances in other states do not count
// and stay.
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

// A failed removal is returned and does not prevent others.
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

// RemovePod removes containers, then sandboxes, and then calls Forget. A container that may be
// running prevents the later steps.
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
		is     error  // expected error, if any
		text   string // expected text
	}{
		"stopped":          {"1", of(observed.StateExited), nil, slices.Concat([]string{"forget 1"}, containers, sandboxes), nil, ""},
		"never started":    {"1", of(observed.StateCreated), nil, slices.Concat([]string{"forget 1"}, containers, sandboxes), nil, ""},
		"runs":             {"1", of(observed.StateRunning), nil, []string{"remove b"}, ErrRunning, "container a"},
		"may run":          {"1", of(observed.StateUnknown), nil, []string{"remove b"}, ErrRunning, "container a"},
		"container stays":  {"1", of(observed.StateExited), map[string]error{"a": stuck}, containers, stuck, "remove pod ns/pod"},
		"sandbox stays":    {"1", of(observed.StateExited), map[string]error{"s1": stuck}, slices.Concat(containers, sandboxes), stuck, "remove pod ns/pod"},
		"of another pod":   {"2", of(observed.StateExited), nil, nil, nil, "the Status has UID"},
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

// Without the removal of its logs, Forget is not called for a pod.
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

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// gc returns a container that is age seconds old.
func gc(uid types.UID, name, id string, age int, state observed.State) container {
	return container{unit: unit{uid: uid, name: name}, id: id, state: state, created: now.Add(-time.Duration(age) * time.Second)}
}

func TestPlanContainers(t *testing.T) {
	exited := observed.StateExited
	all := []container{
		gc("1", "a", "a-new", 10, exited), gc("1", "a", "a-mid", 20, exited), gc("1", "a", "a-old", 30, exited),
		gc("1", "b", "b-runs", 40, observed.StateRunning), gc("1", "b", "b-old", 50, exited),
		gc("2", "a", "other", 60, exited), gc("2", "c", "starting", 1, observed.StateCreated), gc("2", "c", "stale", 5, observed.StateCreated),
		gc("3", "a", "lost", 70, observed.StateUnknown),
	}
	given := slices.Clone(all)
	none := func(types.UID) bool { return false }
	for _, tc := range []struct {
		name      string
		policy    Policy
		removable func(types.UID) bool
		want      []string
	}{
		{"default keeps the newest", Policy{}, none, []string{"a-old", "a-mid"}},
		{"two each", Policy{MaxPerContainer: 2}, none, []string{"a-old"}},
		{"no limit", Policy{MaxPerContainer: -1}, none, nil},
		{"none but the newest, and what is about to start", Policy{KeepNone: true}, none, []string{"b-old", "a-old", "a-mid", "stale"}},
		{"young ones stay", Policy{KeepNone: true, MinAge: 25 * time.Second}, none, []string{"b-old", "a-old"}},
		{"of a pod that may go, young ones stay", Policy{MinAge: 25 * time.Second}, func(uid types.UID) bool { return uid != "2" }, []string{"lost", "b-old", "a-old"}},
		{"a pod that may go", Policy{MaxPerContainer: -1}, func(uid types.UID) bool { return uid == "2" }, []string{"other", "stale", "starting"}},
		{"as many as may stay in all", Policy{MaxPerContainer: -1, MaxTotal: 7}, none, nil},
		{"in all, a share each", Policy{MaxPerContainer: -1, MaxTotal: 5}, none, []string{"a-old", "a-mid"}},
		{"in all, fewer than there are names", Policy{MaxPerContainer: -1, MaxTotal: 4}, none, []string{"b-old", "a-old", "a-mid"}},
		{"in all, then the oldest", Policy{MaxPerContainer: -1, MaxTotal: 3}, none, []string{"b-old", "a-old", "a-mid", "stale"}},
		{"in all, but not what is needed", Policy{MaxTotal: 1}, none, []string{"b-old", "a-old", "a-mid", "stale"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, c := range planContainers(all, tc.policy, tc.removable, now) {
				got = append(got, c.id)
			}
			require.Equal(t, tc.want, got, "oldest first")
			require.Equal(t, given, all, "the list is the caller's")
		})
	}
}

// A clock that was set back does not change the order of instances.
func TestAttemptsOrderInstances(t *testing.T) {
	first, second := gc("1", "a", "first", 10, observed.StateExited), gc("1", "a", "second", 20, observed.StateExited)
	second.attempt = 1
	plan := planContainers([]container{first, second}, Policy{}, func(types.UID) bool { return false }, now)
	require.Len(t, plan, 1)
	require.Equal(t, "first", plan[0].id)
	sandboxes := []sandbox{{uid: "1", id: "first", created: now}, {uid: "1", id: "second", attempt: 1}}
	require.Equal(t, []string{"first"}, planSandboxes(sandboxes, func(types.UID) bool { return false }))
}

func TestPlanSandboxes(t *testing.T) {
	at := func(age int) time.Time { return now.Add(-time.Duration(age) * time.Second) }
	all := []sandbox{
		{uid: "1", id: "new", created: at(1)}, {uid: "1", id: "old", created: at(2)}, {uid: "1", id: "holds", holds: true, created: at(3)},
		{uid: "2", id: "dead", created: at(5)}, {uid: "2", id: "ready", ready: true, created: at(4)},
		{uid: "3", id: "gone", created: at(6)}, {uid: "3", id: "gone-holds", holds: true, created: at(7)},
	}
	given := slices.Clone(all)
	require.Equal(t, []string{"old", "dead", "gone"}, planSandboxes(all, func(uid types.UID) bool { return uid == "3" }))
	require.Equal(t, []string{"old", "dead"}, planSandboxes(all, func(types.UID) bool { return false }))
	require.Equal(t, given, all, "the list is the caller's")
}

// planLogDirs returns the log folders of removable pods without live objects, in order.
func TestPlanLogDirs(t *testing.T) {
	dirs := map[types.UID][]string{"lives": {"a"}, "wanted": {"b"}}
	var want []string
	for _, c := range "cdefgh" {
		dirs[types.UID(c)] = []string{string(c) + "2", string(c) + "1"}
		want = append(want, string(c)+"1", string(c)+"2")
	}
	got := planLogDirs(dirs, map[types.UID]bool{"lives": true}, func(uid types.UID) bool { return uid != "wanted" })
	require.Equal(t, want, got)
	require.Empty(t, planLogDirs(nil, nil, nil))
}
