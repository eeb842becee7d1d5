package garbage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
)

// node is a runtime and a log folder, which records the changes.
type node struct {
	podsStub
	sandboxes           []*runtimeapi.PodSandbox
	containers          []*runtimeapi.Container
	noSandboxes, noList error
	listing             func() // called while containers are listed
	retained            []map[string]bool
	removed             []string
}

// listed is the node's runtime.
type listed struct {
	cri.RuntimeService
	node *node
}

func (l listed) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return l.node.sandboxes, l.node.noSandboxes
}

func (l listed) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if l.node.listing != nil {
		l.node.listing()
	}
	return l.node.containers, l.node.noList
}

func (n *node) RemoveContainer(_ context.Context, _ labels.Pod, _, id string) error {
	n.removed = append(n.removed, id)
	return n.fail
}

func (n *node) RemoveSandbox(_ context.Context, id string) error {
	n.removed = append(n.removed, id)
	return n.fail
}

func (n *node) Retain(exists map[string]bool) { n.retained = append(n.retained, exists) }

// add adds a pod with a sandbox, an exited container and a log directory.
func (n *node) add(t *testing.T, uid string) {
	of := map[string]string{labels.PodName: "pod", labels.PodNamespace: "ns", labels.PodUID: uid, labels.ContainerName: "a"}
	n.sandboxes = append(n.sandboxes, &runtimeapi.PodSandbox{
		Id: "s" + uid, Labels: of, Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: uid},
		State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
	})
	n.containers = append(n.containers, &runtimeapi.Container{
		Id: "c" + uid, PodSandboxId: "s" + uid, Labels: of, Metadata: &runtimeapi.ContainerMetadata{Name: "a"}, Image: &runtimeapi.ImageSpec{},
		State: runtimeapi.ContainerState_CONTAINER_EXITED,
	})
	require.NoError(t, os.Mkdir(n.logDir(uid), 0o700))
}

func (n *node) logDir(uid string) string { return filepath.Join(n.logs, "ns_pod_"+uid) }

// newNode has the pods 1 and 2. Pod 2 is removable.
func newNode(t *testing.T) (*node, *Collector, Request) {
	n := &node{podsStub: podsStub{logs: t.TempDir()}}
	n.add(t, "1")
	n.add(t, "2")
	c, err := New(Config{Runtime: listed{node: n}, Pods: n})
	require.NoError(t, err)
	return n, c, Request{SourcesReady: true, ContentRemovable: func(uid types.UID) bool { return uid == "2" }}
}

// A removable pod loses its containers, then its empty sandbox, and then, if it has no live
// objects, its logs.
func TestCollect(t *testing.T) {
	n, c, r := newNode(t)
	require.NoError(t, c.Collect(t.Context(), r))
	require.Equal(t, []string{"c2"}, n.removed, "its sandbox holds a container in this list")
	require.Equal(t, []map[string]bool{{"s1": true, "s2": true, "c1": true, "c2": true}}, n.retained)
	require.DirExists(t, n.logDir("1"))
	require.NoDirExists(t, n.logDir("2"))

	n.containers, n.removed = nil, nil
	require.NoError(t, c.Collect(t.Context(), r))
	require.Equal(t, []string{"s2"}, n.removed)
}

// Under disk pressure a pod loses its containers and sandboxes, but not its logs.
func TestCollectUnderPressure(t *testing.T) {
	for ready, want := range map[bool][]string{false: nil, true: {"c2"}} {
		n, c, r := newNode(t)
		r.SourcesReady, r.RuntimeRemovable, r.ContentRemovable = ready, r.ContentRemovable, nil
		require.NoError(t, c.Collect(t.Context(), r))
		require.Equal(t, want, n.removed, "sources ready: %v", ready)
		require.DirExists(t, n.logDir("2"))
	}
}

// A dangling link is removed. It stays, with an error, if it is no longer a link, or if the state
// of its container is unavailable.
func TestCollectLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, n *node, link string)
		why       string // reason that it stays, or ""
	}{
		"dangling": {meanwhile: func(*testing.T, *node, string) {}},
		"gone":     {meanwhile: func(t *testing.T, _ *node, link string) { require.NoError(t, os.Remove(link)) }},
		"no link any more": {func(t *testing.T, _ *node, link string) {
			require.NoError(t, os.Remove(link))
			require.NoError(t, os.MkdirAll(filepath.Join(link, "something"), 0o700))
		}, "log link: remove {link}: "},
		"no containers": {func(_ *testing.T, n *node, _ string) { n.noList = errors.New("away") }, "log links: list containers: away"},
	} {
		t.Run(name, func(t *testing.T) {
			n, c, _ := newNode(t)
			n.links = t.TempDir()
			link := filepath.Join(n.links, "x-12345.log")
			require.NoError(t, os.Symlink("/nowhere", link))
			n.listing = func() { tc.meanwhile(t, n, link) }
			err := c.collectLinks(t.Context())
			_, gone := os.Lstat(link)
			if tc.why == "" {
				require.NoError(t, err)
				require.ErrorIs(t, gone, fs.ErrNotExist)
				return
			}
			require.ErrorContains(t, err, strings.ReplaceAll(tc.why, "{link}", link))
			require.NoError(t, gone)
		})
	}
}

// A pod with a live container or sandbox keeps its logs.
func TestCollectKeepsLogsOfWhatLives(t *testing.T) {
	for name, change := range map[string]func(*node){
		"container": func(n *node) { n.containers[1].State = runtimeapi.ContainerState_CONTAINER_RUNNING },
		"unknown": func(n *node) {
			n.containers[1].State, n.fail = runtimeapi.ContainerState_CONTAINER_UNKNOWN, errors.New("away")
		},
		"sandbox": func(n *node) { n.sandboxes[1].State = runtimeapi.PodSandboxState_SANDBOX_READY },
	} {
		n, c, r := newNode(t)
		change(n)
		require.ErrorIs(t, c.Collect(t.Context(), r), n.fail, name)
		require.DirExists(t, n.logDir("2"), name)
		require.NotContains(t, n.removed, "s2", name)
	}
}

// Unfinished log directories of a killed agent are removed. Young ones and the directories of other
// owners stay.
func TestCollectUnfinishedLogs(t *testing.T) {
	n, c, r := newNode(t)
	n.owner = "edge"
	stay := []string{".new-edge-2", ".new-edge-b-1", ".new-other-1", ".newer-edge-1"}
	for _, name := range append(stay, ".new-edge-1") {
		dir := filepath.Join(n.logs, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		if name != ".new-edge-2" {
			require.NoError(t, os.Chtimes(dir, time.Time{}, time.Now().Add(-2*time.Minute)))
		}
	}
	require.NoError(t, c.Collect(t.Context(), r))
	for _, name := range stay {
		require.DirExists(t, filepath.Join(n.logs, name))
	}
	require.NoDirExists(t, filepath.Join(n.logs, ".new-edge-1"))
}

// Objects without a kubelet's labels are not touched and keep no logs.
func TestCollectIgnoresStrangers(t *testing.T) {
	n, c, r := newNode(t)
	for _, l := range n.containers {
		l.Labels, l.State = nil, runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	n.sandboxes[0].Labels = nil
	require.NoError(t, c.Collect(t.Context(), r))
	require.Empty(t, n.removed)
	require.NoDirExists(t, n.logDir("2"))
}

// If a list fails, its objects are not touched, and their state is kept.
func TestCollectUnknown(t *testing.T) {
	n, c, r := newNode(t)
	n.noSandboxes = errors.New("no sandboxes")
	require.ErrorIs(t, c.Collect(t.Context(), r), n.noSandboxes)
	require.Equal(t, []string{"c2"}, n.removed)
	require.Empty(t, n.retained)
	require.DirExists(t, n.logDir("2"))

	n, c, r = newNode(t)
	n.noList = errors.New("no containers")
	err := c.Collect(t.Context(), r)
	require.ErrorIs(t, err, n.noList)
	require.ErrorContains(t, err, "list containers: no containers")
	require.ErrorContains(t, err, "list sandboxes: no containers")
	require.Empty(t, n.removed)
	require.Empty(t, n.retained)
	require.DirExists(t, n.logDir("2"))
}

// Collection continues after a failure. It ends with an error if ctx is done.
func TestCollectGoesOn(t *testing.T) {
	all := Request{SourcesReady: true, ContentRemovable: func(types.UID) bool { return true }}
	n, c, _ := newNode(t)
	n.fail = errors.New("stuck")
	require.ErrorIs(t, c.Collect(t.Context(), all), n.fail)
	require.Len(t, n.removed, 2)
	n.containers, n.removed = nil, nil
	require.ErrorIs(t, c.Collect(t.Context(), all), n.fail)
	require.ElementsMatch(t, []string{"s1", "s2"}, n.removed)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		n, c, _ = newNode(t)
		require.ErrorIs(t, c.Collect(ctx, all), context.Canceled)
		require.Empty(t, n.removed)
		n.containers = nil
		require.ErrorIs(t, c.Collect(ctx, all), context.Canceled)
		require.Empty(t, n.removed)
	}
}

// A busy pod keeps its dead containers, unless it is removable.
func TestCollectLeavesBusyPods(t *testing.T) {
	n, c, r := newNode(t)
	r.Policy = Policy{KeepNone: true}
	busy := true
	r.Busy = func(uid types.UID) bool { return busy && uid != "" }
	n.containers[0].CreatedAt = 2
	n.containers = append(n.containers, &runtimeapi.Container{
		Id: "older", PodSandboxId: "s1", Labels: n.containers[0].Labels, Metadata: n.containers[0].Metadata, Image: &runtimeapi.ImageSpec{},
		State: runtimeapi.ContainerState_CONTAINER_EXITED, CreatedAt: 1,
	})
	require.NoError(t, c.Collect(t.Context(), r))
	require.Equal(t, []string{"c2"}, n.removed)
	busy, n.removed = false, nil
	require.NoError(t, c.Collect(t.Context(), r))
	require.ElementsMatch(t, []string{"older", "c2"}, n.removed)
}

// Unreadable folders cause errors, but do not prevent other removals.
func TestCollectUnreadable(t *testing.T) {
	n, c, r := newNode(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	n.logs, n.links = file, file
	err := c.Collect(t.Context(), r)
	require.ErrorContains(t, err, "logs: open "+file)
	require.ErrorContains(t, err, "log links: open "+file)
	require.Equal(t, []string{"c2"}, n.removed)
}
