package podsource

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

// FuzzMerger plays sets, one pod per two bytes, and looks at random moments. What
// is told is sound, and adds up to the newest set; so it is for sets of pods that
// never change, which are not copied each time.
func FuzzMerger(f *testing.F) {
	f.Add([]byte("\x11\x01\x12\x02\xff\xff\x11\x03\xff\x00"))
	f.Add([]byte("\x11\x01\x21\x01\x11\x02\xff\xff\xff\x01\x31\x11\xff\xff"))
	f.Add([]byte("a set, and another set, and then none"))
	for seed := range uint64(50) {
		f.Add(randomSets(rand.New(rand.NewPCG(seed, 2))))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		plain, constant := newMerger(t, MergerConfig{}), newMerger(t, MergerConfig{})
		replicas := [2]map[types.UID]*v1.Pod{{}, {}}
		pool := map[[2]byte]*v1.Pod{}
		var set []*v1.Pod
		give := func() {
			require.NoError(t, plain.Set("s", set))
			require.NoError(t, constant.SetConstant("s", set, nil))
		}
		look := func() {
			a, b := plain.Changes("s"), constant.Changes("s")
			require.Equal(t, trace(a), trace(b))
			follow(t, replicas[0], a)
			follow(t, replicas[1], b)
			taken, _, _ := choose(set)
			for _, replica := range replicas {
				require.Len(t, replica, len(taken))
				for _, pod := range taken {
					missed := syncloop.Diff(map[types.UID]*v1.Pod{pod.UID: replica[pod.UID]}, []*v1.Pod{pod})
					require.Empty(t, missed, "%s was not told", pod.UID)
				}
			}
		}
		for i := 0; i+1 < len(script); i += 2 {
			a, b := script[i], script[i+1]
			if a != 0xff {
				set = append(set, fuzzPod(pool, a, b))
				continue
			}
			give()
			if b > 0x7f {
				look()
			}
			set = nil
		}
		give()
		look()
		require.Empty(t, plain.Changes("s"))
	})
}

// fuzzPod returns one of few pods; of the same bytes it is the same object.
func fuzzPod(pool map[[2]byte]*v1.Pod, a, b byte) *v1.Pod {
	key := [2]byte{a, b}
	if pool[key] == nil {
		pod := newPod(fmt.Sprint("n", a&3), types.UID(fmt.Sprint("u", a>>4&3)), image(fmt.Sprint(b&1)))
		if b&2 != 0 {
			pod.Status.Phase = v1.PodRunning
		}
		if b&4 != 0 {
			deleting(pod)
		}
		if b&24 == 24 {
			pod.UID = ""
		}
		pool[key] = pod
	}
	return pool[key]
}

// follow does what changes say to a replica.
func follow(t *testing.T, replica map[types.UID]*v1.Pod, changes []syncloop.Change) {
	last := syncloop.Op(0)
	for _, c := range changes {
		require.Greater(t, c.Op, last, "each operation once, in order")
		last = c.Op
		for _, pod := range c.Pods {
			_, there := replica[pod.UID]
			require.Equal(t, c.Op != syncloop.OpAdd, there, "%s of %s", c.Op, pod.UID)
			replica[pod.UID] = pod
			if c.Op == syncloop.OpRemove {
				delete(replica, pod.UID)
			}
		}
	}
}

// randomSets is an input of FuzzMerger with 30 sets of up to 6 pods.
func randomSets(random *rand.Rand) (script []byte) {
	for range 30 {
		for range random.IntN(7) {
			script = append(script, byte(random.IntN(64)), byte(random.IntN(8)))
		}
		script = append(script, 0xff, byte(random.IntN(256)))
	}
	return script
}
