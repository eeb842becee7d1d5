package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// node is a node with images, containers and a disk of 1000 bytes.
type node struct {
	mu         sync.Mutex
	images     []*runtimeapi.Image
	containers []*runtimeapi.Container
	further    []string
	capacity   uint64
	available  uint64
	fail       map[string]error // per call, and per image
	lists      int
	told       []string // events and removals
	left       []string // arguments of OnList
}

func newNode(images ...*runtimeapi.Image) *node {
	return &node{images: images, capacity: 1000, available: 1000, fail: map[string]error{}}
}

func sized(id string, size uint64, names ...string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: id, Size: size, RepoTags: names}
}

func (n *node) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lists++
	return append([]*runtimeapi.Image(nil), n.images...), n.fail["ListImages"]
}

func (n *node) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.containers, n.fail["ListContainers"]
}

func (n *node) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

func (n *node) RemoveImage(_ context.Context, image *runtimeapi.ImageSpec) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.fail[image.Image]; err != nil {
		return err
	}
	for i, have := range n.images {
		if have.Id == image.Image {
			n.available += have.Size
			n.images = append(append([]*runtimeapi.Image(nil), n.images[:i]...), n.images[i+1:]...)
		}
	}
	return nil
}

func (n *node) failure(call string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fail[call]
}

func (n *node) present() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range n.images {
		out = append(out, i.Id)
	}
	return out
}

func (n *node) tell(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, text)
}

func (n *node) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.told
	n.told = nil
	return out
}

func (n *node) manager(t *testing.T, p Policy) *Manager {
	t.Helper()
	m, err := New(Config{
		Images: n, Containers: n, Policy: p, Keep: []string{"r.io/pause:3"},
		InUse: func(context.Context) ([]string, error) { return n.further, n.failure("InUse") },
		Disk:  func(context.Context) (Disk, error) { return Disk{n.capacity, n.available}, n.failure("Disk") },
		OnList: func(images []*runtimeapi.Image, listed time.Time) error {
			require.False(t, listed.IsZero())
			n.left = nil
			for _, i := range images {
				n.left = append(n.left, i.Id)
			}
			return n.failure("Remaining")
		},
		Node: v1.ObjectReference{Kind: "Node", Name: "n"},
		Event: func(ref v1.ObjectReference, kind, reason, _ string) {
			require.Equal(t, "n", ref.Name)
			n.tell(kind + " " + reason)
		},
		OnRemove: func(i Image, r Reason) { n.tell(fmt.Sprint(i.ID, " ", r)) },
	})
	require.NoError(t, err)
	return m
}

// C43: each form of reference from a container or a volume keeps the image.
func TestInUse(t *testing.T) {
	n := newNode(
		sized("by-id", 1), sized("by-ref", 1), sized("by-tag", 1, "docker.io/library/x:1"),
		&runtimeapi.Image{Id: "by-digest", RepoDigests: []string{"x@sha256:1"}},
		sized("by-volume", 1, "docker.io/library/volume:latest"), sized("sandbox", 1, "r.io/pause:3"), &runtimeapi.Image{Id: "pinned", Pinned: true}, sized("unused", 1, "y:1"),
	)
	n.containers = []*runtimeapi.Container{
		{ImageId: "by-id", State: runtimeapi.ContainerState_CONTAINER_EXITED}, {ImageRef: "by-ref"},
		{Image: &runtimeapi.ImageSpec{Image: "docker.io/library/x:1"}}, {ImageRef: "x@sha256:1"},
	}
	n.further = []string{"volume"}
	freed, err := n.manager(t, Policy{}).RemoveUnused(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, freed)
	require.Equal(t, []string{"unused space"}, n.take())
	require.Equal(t, []string{"by-id", "by-ref", "by-tag", "by-digest", "by-volume", "sandbox", "pinned"}, n.left)
}

// C44: at 85 % usage images are removed until 80 % is reached, except young ones.
func TestSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(sized("first", 20), sized("used", 500))
		n.containers = []*runtimeapi.Container{{ImageId: "used"}}
		n.available = 150
		m := n.manager(t, Policy{})
		require.NoError(t, m.Detect(t.Context()))
		require.Equal(t, []string{"first", "used"}, n.left)
		time.Sleep(time.Second)
		n.images = append(n.images, sized("second", 30), sized("third", 40))
		require.NoError(t, m.Detect(t.Context()))
		time.Sleep(2 * time.Minute)
		n.images = append(n.images, sized("young", 400))
		require.NoError(t, m.Collect(t.Context()))
		require.Equal(t, []string{"first space", "second space"}, n.take(), "20 and 30 are the 50 that are wanted")
		require.EqualValues(t, 200, n.available)
		require.NoError(t, m.Collect(t.Context()))
		require.Empty(t, n.take())

		n.available = 0
		require.ErrorContains(t, m.Collect(t.Context()), "image filesystem (100% of 1000 B used). Failed to free sufficient space by deleting unused images (freed 40 bytes)")
		require.Equal(t, []string{"third space", "Warning FreeDiskSpaceFailed"}, n.take())
		require.Equal(t, []string{"used", "young"}, n.present())
	})
}

// Images that cannot be removed are skipped.
func TestRemoveFails(t *testing.T) {
	n := newNode(sized("a", 100), sized("b", 100))
	n.available, n.fail["a"] = 150, errors.New("busy")
	require.ErrorIs(t, n.manager(t, Policy{}).Collect(t.Context()), n.fail["a"])
	require.Equal(t, []string{"b space"}, n.take())
	require.Equal(t, []string{"a"}, n.left)
	n.fail["Remaining"] = errors.New("disk full")
	require.ErrorIs(t, n.manager(t, Policy{}).Collect(t.Context()), n.fail["Remaining"])
	n.capacity = 0
	require.ErrorContains(t, n.manager(t, Policy{}).Collect(t.Context()), "invalid capacity")
	require.Equal(t, []string{"Warning InvalidDiskCapacity"}, n.take())
	require.Equal(t, []string{"a"}, n.present())
}

// Run detects at once, removes images by age even if the disk cannot be measured, and records an
// event from the second failure in a row.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(sized("a", 1), sized("b", 1))
		n.containers = []*runtimeapi.Container{{ImageId: "b"}}
		n.fail["Disk"] = errors.New("away")
		m := n.manager(t, Policy{MaxAge: 12 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, m.Run(ctx)) })
		synctest.Wait()
		require.Equal(t, 1, n.lists)
		n.mu.Lock()
		n.containers = nil
		n.mu.Unlock()
		time.Sleep(10*time.Minute + 1)
		synctest.Wait()
		require.Equal(t, []string{"Warning ImageGCFailed"}, n.take())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a age", "b age", "Warning ImageGCFailed"}, n.take(), "b was last seen in use at the start")
		n.mu.Lock()
		delete(n.fail, "Disk")
		n.mu.Unlock()
		time.Sleep(5 * time.Minute)
		n.mu.Lock()
		n.fail["Disk"] = errors.New("away")
		n.mu.Unlock()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Empty(t, n.take(), "only one failure in a row")
		cancel()
		wg.Wait()
	})
}

// A call that ignores its context does not keep Run from ending.
func TestRunIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(sized("a", 1))
		m := n.manager(t, Policy{MaxAge: 12 * time.Minute})
		release := make(chan struct{})
		m.cfg.Disk = func(context.Context) (Disk, error) { <-release; return Disk{}, errors.New("away") }
		ctx, cancel := context.WithTimeout(t.Context(), m.cfg.CollectInterval*3/2)
		defer cancel()
		err := m.Run(ctx)
		require.ErrorIs(t, err, ErrShutdownTimeout)
		require.EqualError(t, err, "gc: still running after the shutdown timeout (10s): detecting or removing images")
		close(release)
	})
}

// Each collection of Run is a span and uses its context.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(sized("a", 1))
		m := n.manager(t, Policy{MaxAge: 12 * time.Minute})
		type key struct{}
		var got []string
		m.cfg.Disk = func(ctx context.Context) (Disk, error) {
			got = append(got, fmt.Sprint(ctx.Value(key{})))
			return Disk{}, errors.New("away")
		}
		m.cfg.Span = func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error)) {
			return context.WithValue(ctx, key{}, name), func(err error) { got = append(got, err.Error()) }
		}
		ctx, cancel := context.WithTimeout(t.Context(), m.cfg.CollectInterval*3/2)
		defer cancel()
		require.NoError(t, m.Run(ctx))
		require.Len(t, got, 2)
		require.Equal(t, "Images/GarbageCollect", got[0])
		require.Contains(t, got[1], "away")
	})
}

// With removal by space and by age disabled, Run only detects.
func TestRunDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(sized("a", 1))
		n.available = 0
		m := n.manager(t, Policy{HighPercent: 100, LowPercent: 80})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, m.Run(ctx))
		require.ErrorIs(t, m.Run(ctx), ErrAlreadyRun)
		require.Len(t, n.present(), 1)
		require.Empty(t, n.take())
	})
}

func TestImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(sized("small", 1), sized("large", 3), sized("middle", 2))
		m := n.manager(t, Policy{})
		for range 3 {
			list, err := m.Images(t.Context())
			require.NoError(t, err)
			require.Equal(t, "large middle small", list[0].Id+" "+list[1].Id+" "+list[2].Id)
		}
		require.Equal(t, 1, n.lists)
		time.Sleep(30 * time.Second)
		n.fail["ListImages"] = errors.New("away")
		_, err := m.Images(t.Context())
		require.ErrorIs(t, err, n.fail["ListImages"])
		require.Equal(t, 2, n.lists)
	})
}

// Operations run one at a time, and a waiting one can be cancelled.
func TestOneAtATime(t *testing.T) {
	m := newNode().manager(t, Policy{})
	leave, err := m.enter(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Collect(ctx), context.Canceled)
	require.ErrorIs(t, m.Detect(ctx), context.Canceled)
	_, err = m.RemoveUnused(ctx)
	require.ErrorIs(t, err, context.Canceled)
	leave()
	require.NoError(t, m.Collect(t.Context()))
}

func TestNewRefuses(t *testing.T) {
	n := newNode()
	for field, change := range map[string]func(*Config){
		"Policy.HighPercent":        func(c *Config) { c.Policy.HighPercent = 101 },
		"Policy.LowPercent":         func(c *Config) { c.Policy = Policy{HighPercent: 50, LowPercent: -1} },
		"LowPercent 50 is not less": func(c *Config) { c.Policy = Policy{HighPercent: 50, LowPercent: 50} },
		"Policy.MinAge":             func(c *Config) { c.Policy.MinAge = -1 },
		"Policy.MaxAge is negative": func(c *Config) { c.Policy.MaxAge = -1 },
		"MaxAge 2m0s is not longer": func(c *Config) { c.Policy.MaxAge = 2 * time.Minute },
		"Config.CollectInterval":    func(c *Config) { c.CollectInterval = -1 },
	} {
		cfg := Config{Images: n, Containers: n}
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, field)
	}
}

// The default Disk measures the filesystem that the runtime reports.
func TestDiskOfTheRuntime(t *testing.T) {
	rt, err := fake.New(fake.Config{ImageFilesystem: os.TempDir()})
	require.NoError(t, err)
	defer rt.Close()
	m, err := New(Config{Images: rt, Containers: rt})
	require.NoError(t, err)
	disk, err := m.cfg.Disk(t.Context())
	require.NoError(t, err)
	require.Positive(t, disk.Capacity)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
