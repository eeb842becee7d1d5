package podworkers_test

import (
	"cmp"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

var exploreFor = flag.Duration("explore", 3*time.Second, "the duration of the exploration of pod lifecycles; at most 500 ms with -short")

var rewrite = flag.Bool("rewrite", false, "write the events into the scripts")

// The scripts in testdata have the scenarios of the lifecycle.
func TestScripts(t *testing.T) {
	podworkerstest.RunScripts(t, "testdata/*.txt", podworkerstest.ScriptOptions{Rewrite: *rewrite})
}

// scenarios returns the scenarios to explore: with and without pods that share a full name.
func scenarios() []*scenario {
	return []*scenario{
		newScenario("one API pod", false, false, "a"),
		newScenario("one API pod, few inputs", false, true, "a"),
		newScenario("two API pods", false, false, "a", "b"),
		newScenario("two static pods of one name", true, false, "a", "b"),
		newScenario("two static pods of one name, few inputs", true, true, "a", "b"),
	}
}

// Every order of inputs to a few pods, up to some number of inputs, keeps the rules INV-1 to
// INV-19 of the checker. INV-3, INV-4, INV-5, INV-7, INV-8, INV-9 and INV-10 have no other test.
// The recorder of the scripts tests INV-20. A failure prints its shortest script.
func TestExplore(t *testing.T) {
	var explorers []*explorer
	for _, w := range scenarios() {
		explorers = append(explorers, &explorer{w: w, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, frontier: []path{w.begin()}})
	}
	limit := *exploreFor
	if testing.Short() {
		limit = min(limit, 500*time.Millisecond)
	}
	deadline := time.Now().Add(limit)
	late := func() bool { return time.Now().After(deadline) }
	open := slices.Clone(explorers)
	for len(open) > 0 && !late() {
		// The explorer with the cheapest next level.
		e := slices.MinFunc(open, func(a, b *explorer) int { return cmp.Compare(len(a.frontier), len(b.frontier)) })
		if err := e.level(late); err != nil {
			t.Fatalf("%s: %v", e.w.name, err)
		}
		if len(e.frontier) == 0 {
			open = slices.DeleteFunc(open, func(o *explorer) bool { return o == e })
		}
	}
	for _, e := range explorers {
		if len(e.frontier) == 0 {
			t.Logf("%s: complete, %d states", e.w.name, len(e.seen))
		} else {
			t.Logf("%s: complete up to %d inputs, %d states", e.w.name, e.depth, len(e.seen))
		}
	}
}

// explorer visits all states of a scenario, in order of the number of inputs.
type explorer struct {
	w        *scenario
	depth    int
	seed     maphash.Seed
	seen     map[uint64]struct{}
	frontier []path // to the new states of the last level
	key      []byte
}

// level takes one more action from every state of the last level.
func (e *explorer) level(enough func() bool) error {
	var next []path
	for n, p := range e.frontier {
		if n%16 == 0 && enough() {
			return nil
		}
		at := newWalk()
		for _, i := range p {
			at.step(e.w.actions[i])
		}
		at.check.Settle(time.Time{})
		for i, a := range e.w.actions {
			if !a.can(at.x) {
				continue
			}
			k := at.clone()
			k.step(a)
			further := p.extend(i)
			if err := k.err(); err != nil {
				return e.failure(further, err)
			}
			if e.isNew(k) {
				next = append(next, further)
				if err := k.drain(e.w); err != nil {
					return e.failure(further, err)
				}
			}
		}
	}
	e.frontier, e.depth = next, e.depth+1
	return nil
}

func (e *explorer) isNew(k *walk) bool {
	e.key = k.appendKey(e.key[:0])
	h := maphash.Bytes(e.seed, e.key)
	_, known := e.seen[h]
	e.seen[h] = struct{}{}
	return !known
}

func (e *explorer) failure(p path, err error) error {
	k := newWalk()
	var trace podworkerstest.Trace
	for _, i := range p {
		trace = append(trace, e.w.actions[i].do(k.x)...)
	}
	return fmt.Errorf("%w\n\nThe shortest script with this violation; save it in testdata and run TestScripts with -rewrite:\n\n# %s\n\n%s\nEvents:\n\n%s", err, e.w.name, e.w.script(p), trace)
}

// Scripts of random paths have the same results on real Workers as on the machine alone, so the
// exploration covers the real code.
func TestScriptsReplayPaths(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 10
	}
	acted := regexp.MustCompile(` acted=\S+`)
	said := func(trace, uid string) (lines []string) {
		for line := range strings.Lines(acted.ReplaceAllString(trace, "")) {
			if _, what, ok := strings.Cut(line, " "+uid+": "); ok && !strings.Contains(what, " ends") {
				lines = append(lines, what)
			}
		}
		return lines
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 0))
			w := scenarios()[seed%len(scenarios())]
			k := newWalk()
			var p path
			var trace podworkerstest.Trace
			for len(p) < 40 {
				i := random.IntN(len(w.actions))
				if a := w.actions[i]; a.can(k.x) && (a.command != "stop" || len(p) > 35) {
					p, trace = p.extend(i), append(trace, a.do(k.x)...)
				}
			}
			script := w.script(p)
			played := podworkerstest.Play(t, script, podworkerstest.ScriptOptions{})
			_, played, _ = strings.Cut(played, "----")
			for _, uid := range w.uids {
				require.Equal(t, said(trace.String(), string(uid)), said(played, string(uid)), "%s\n%s", script, trace)
			}
		})
	}
}

// FuzzScript lets the fuzzer choose the path.
func FuzzScript(f *testing.F) {
	f.Add([]byte{0, 0, 8, 20, 3, 3})
	f.Add([]byte{2, 0, 8, 20, 12, 21, 33, 4, 1, 5})
	all := scenarios()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 2048 {
			t.Skip()
		}
		w := all[int(data[0])%len(all)]
		k := newWalk()
		var p path
		for _, b := range data[1:] {
			i := int(b) % len(w.actions)
			if !w.actions[i].can(k.x) {
				continue
			}
			k.step(w.actions[i])
			p = p.extend(i)
			if err := k.err(); err != nil {
				t.Fatalf("%v\n\n%s", err, w.script(p))
			}
		}
		if err := k.drain(w); err != nil {
			t.Fatalf("%v\n\n%s", err, w.script(p))
		}
	})
}

var _ podworkerstest.Workers = (*podworkers.Machine)(nil)
