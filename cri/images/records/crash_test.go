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

// node9 is a node whose agent is killed while its runtime survives. It has a preloaded image. A
// registry serves others, including the same image under a private name.
type node9 struct {
	t      *testing.T
	dir    string
	images map[string]*runtimeapi.Image // by ID
	left   int                          // steps until the agent is killed
}

// killed is the panic that simulates kill -9.
type killed struct{}

func (n *node9) step(string) {
	if n.left--; n.left < 0 {
		panic(killed{})
	}
}

// live runs an agent and reports whether it survived.
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

// pull acts like a manager. The agent may be killed before or after the runtime has the image.
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

// C26, C27 with kill -9 at every step, and again at every step of the second run: no pod gets
// access without proof, the owner has access once its pull has succeeded, and preloaded names stay
// open.
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
			if again || first%3 != 0 { // second runs only for every third first one
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
