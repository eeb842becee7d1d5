package records

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// node9 is a node whose agent is killed. Its runtime survives: it has a preloaded
// image, and a registry gives it others, among them the same under a private name.
type node9 struct {
	t      *testing.T
	dir    string
	images map[string]*runtimeapi.Image // by ID
	left   int                          // steps until the agent is killed
}

// killed is what kill -9 looks like from within.
type killed struct{}

func (n *node9) step(string) {
	if n.left--; n.left < 0 {
		panic(killed{})
	}
}

// live runs an agent until it ends or is killed, and tells which.
func (n *node9) live(life func(b *Store)) (survived bool) {
	defer func() {
		if cause := recover(); cause != nil && cause != (killed{}) {
			panic(cause)
		}
	}()
	b := open(n.t, n.dir, "")
	b.step = n.step
	require.NoError(n.t, b.Tidy(slices.Collect(maps.Values(n.images)), time.Now()))
	life(b)
	return true
}

func (n *node9) find(name string) *runtimeapi.Image {
	for _, i := range n.images {
		if slices.Contains(i.RepoTags, name) {
			return i
		}
	}
	return nil
}

// pull is what a manager does; the runtime may be done with it, or not, when the
// agent is killed.
func (n *node9) pull(b *Store, name, id string) {
	require.NoError(n.t, b.Begin(name, n.find(name)))
	n.step("runtime has not begun")
	got := n.images[id]
	if got == nil {
		got = image(id)
		n.images[id] = got
	}
	if !slices.Contains(got.RepoTags, name) {
		got.RepoTags = append(got.RepoTags, name)
	}
	n.step("runtime is done")
	require.NoError(n.t, b.Pulled(Pull{Image: name, Ref: id, Credential: who("ns", "a", "p"), Status: got}))
}

// C26, C27 under kill -9 at every step, and again at every step of the second life:
// nobody gets what he cannot show to be allowed to, the owner always does once his
// pull has succeeded, and what was preloaded stays open.
func TestKilledAtAnyStep(t *testing.T) {
	for first := 0; ; first++ {
		finished := false
		for second := 0; ; second++ {
			n := &node9{t: t, dir: t.TempDir(), left: first, images: map[string]*runtimeapi.Image{
				"shared": image("shared", "docker.io/library/preloaded:1"),
			}}
			finished = n.live(func(b *Store) {
				n.pull(b, "r.io/private:1", "own")
				n.pull(b, "r.io/same:1", "shared")
			})
			n.left = second
			again := n.live(func(b *Store) { n.pull(b, "r.io/same:1", "shared") })
			n.left = 1000
			require.True(t, n.live(func(b *Store) { n.check(b, finished, again, fmt.Sprint("killed at ", first, " and ", second)) }))
			if again || first%3 != 0 { // every second life for every third first one
				break
			}
		}
		if finished {
			require.Greater(t, first, 10, "there are steps to be killed at")
			return
		}
	}
}

func (n *node9) check(b *Store, finished, again bool, story string) {
	t := n.t
	for name, id := range map[string]string{"r.io/private:1": "own", "r.io/same:1": "shared"} {
		if n.find(name) == nil {
			continue
		}
		require.False(t, allowed(t, b, name, id), "%s: %s without credentials", story, name)
		require.False(t, allowed(t, b, name, id, who("x", "y", "z")), "%s: %s with others", story, name)
	}
	if finished {
		require.True(t, allowed(t, b, "r.io/private:1", "own", who("ns", "a", "p")), story)
	}
	if finished || again {
		require.True(t, allowed(t, b, "r.io/same:1", "shared", who("ns", "a", "p")), story)
	}
	require.True(t, allowed(t, b, "preloaded:1", "shared"), "%s: preloaded", story)
}
