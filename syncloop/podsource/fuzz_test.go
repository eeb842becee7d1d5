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

// FuzzMerger plays sets, one pod per two bytes. After each set the Merger has the pods that choose
// takes. The same is true for immutable pods, which are not copied each time.
func FuzzMerger(f *testing.F) {
	f.Add([]byte("\x11\x01\x12\x02\xff\xff\x11\x03\xff\x00"))
	f.Add([]byte("\x11\x01\x21\x01\x11\x02\xff\xff\xff\x01\x31\x11\xff\xff"))
	f.Add([]byte("a set, and another set, and then none"))
	for seed := range uint64(50) {
		f.Add(randomSets(rand.New(rand.NewPCG(seed, 2))))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		plain, constant := newMerger(t, MergerConfig{}), newMerger(t, MergerConfig{})
		pool := map[[2]byte]*v1.Pod{}
		var set, taken []*v1.Pod
		for i := 0; i+1 < len(script); i += 2 {
			if script[i] != 0xff {
				set = append(set, fuzzPod(pool, script[i], script[i+1]))
				continue
			}
			require.Equal(t, plain.Set("s", set), constant.SetConstant("s", set, nil))
			taken, _, _ = choose(set, taken)
			for _, m := range []*follower{plain, constant} {
				pods, _ := m.Pods("s")
				require.Len(t, pods, len(taken))
				require.Empty(t, syncloop.Diff(byUID(taken), pods), "annotations of the Merger's own do not count")
			}
			set = nil
		}
	})
}

// fuzzPod returns one of few pods, the same object for the same bytes.
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
		Default(pod) // which SetConstant requires
		pool[key] = pod
	}
	return pool[key]
}

// randomSets returns an input of FuzzMerger with 30 sets of up to 6 pods.
func randomSets(random *rand.Rand) (script []byte) {
	for range 30 {
		for range random.IntN(7) {
			script = append(script, byte(random.IntN(64)), byte(random.IntN(8)))
		}
		script = append(script, 0xff, byte(random.IntN(256)))
	}
	return script
}
