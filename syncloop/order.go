package syncloop

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Order puts pods into the order in which they are admitted, in place. What it
// cannot honour it returns as an error; the pods are in a complete order then too.
// ByCreation, ByPriority and ByDependency are Orders.
//
// An order is one among the pods that are new at the same time: those that one
// source brings with one set, and those that start again in one housekeeping.
// After a restart of the agent these are all pods of a source, running or not.
type Order func(pods []*v1.Pod) error

// ByCreation is the order of the creation timestamps, the oldest first, and of the
// UIDs where these are equal. It is the default.
func ByCreation(pods []*v1.Pod) error {
	slices.SortStableFunc(pods, compareCreation)
	return nil
}

// ByPriority takes the pods with the highest spec.priority first, and of equal
// ones the oldest. A pod without priority has that of its priority class if this
// is one of the two system classes, whose values are fixed, and else 0. So
// critical pods come first.
func ByPriority(pods []*v1.Pod) error {
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), compareCreation(a, b))
	})
	return nil
}

func compareCreation(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// The system's priority classes and their values.
const (
	nodeCritical            = "system-node-critical"
	nodeCriticalPriority    = 2_000_001_000
	clusterCritical         = "system-cluster-critical"
	clusterCriticalPriority = 2_000_000_000
)

func priority(pod *v1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case pod.Spec.PriorityClassName == nodeCritical:
		return nodeCriticalPriority
	case pod.Spec.PriorityClassName == clusterCritical:
		return clusterCriticalPriority
	}
	return 0
}

// DependsOnAnnotation names, separated by commas, the pods that a pod depends on:
// "name" for one in the same namespace, or "namespace/name".
const DependsOnAnnotation = "podwright.io/depends-on"

// DependsOn returns the names in a pod's DependsOnAnnotation.
func DependsOn(pod *v1.Pod) []string {
	var names []string
	for name := range strings.SplitSeq(pod.Annotations[DependsOnAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// CycleError is part of ByDependency's error: these pods depend on each other.
type CycleError struct {
	// Pods are their names, as "namespace/name". Each depends on the next one, and
	// the last one on the first.
	Pods []string
}

// Error names the pods.
func (e *CycleError) Error() string {
	return fmt.Sprintf("pods depend on each other: %s -> %s", strings.Join(e.Pods, " -> "), e.Pods[0])
}

// ByDependency takes each pod after those that it depends on, and else keeps to
// the order then, or to ByCreation if that is nil. What a pod depends on moves
// forward with it. deps names the pods as DependsOn does, which nil stands for. A
// static pod may be named with or without the name of the node at its end. Names
// of pods that are not among those to order are passed over: to hold a pod back
// until others have started there is AfterDependencies.
//
// Circles are reported as CycleErrors. Of the pods of a circle the one that comes
// first in the order then is admitted last.
func ByDependency(deps func(pod *v1.Pod) []string, then Order) Order {
	if deps == nil {
		deps = DependsOn
	}
	if then == nil {
		then = ByCreation
	}
	return func(pods []*v1.Pod) error {
		err := then(pods)
		s := newSorting(pods, deps)
		for i := range pods {
			s.visit(i)
		}
		copy(pods, s.sorted)
		return errors.Join(append(s.cycles, err)...)
	}
}

// sorting is a topological sort under way, depth first.
type sorting struct {
	pods   []*v1.Pod
	deps   func(*v1.Pod) []string
	byName map[string][]int
	done   []bool
	depth  []int // place in path plus one; 0: not in it
	path   []int
	sorted []*v1.Pod
	cycles []error
}

func newSorting(pods []*v1.Pod, deps func(*v1.Pod) []string) *sorting {
	s := &sorting{
		pods: slices.Clone(pods), deps: deps, byName: map[string][]int{},
		done: make([]bool, len(pods)), depth: make([]int, len(pods)),
	}
	for i, pod := range pods {
		for _, name := range namesOf(pod) {
			s.byName[name] = append(s.byName[name], i)
		}
	}
	return s
}

// visit takes a pod after those that it depends on.
func (s *sorting) visit(i int) {
	if s.done[i] {
		return
	}
	s.path = append(s.path, i)
	s.depth[i] = len(s.path)
	for _, name := range s.deps(s.pods[i]) {
		for _, other := range s.byName[qualified(s.pods[i].Namespace, name)] {
			if at := s.depth[other]; at > 0 {
				s.cycles = append(s.cycles, s.cycle(s.path[at-1:]))
				continue
			}
			s.visit(other)
		}
	}
	s.path = s.path[:len(s.path)-1]
	s.depth[i], s.done[i] = 0, true
	s.sorted = append(s.sorted, s.pods[i])
}

func (s *sorting) cycle(path []int) error {
	e := &CycleError{}
	for _, i := range path {
		e.Pods = append(e.Pods, s.pods[i].Namespace+"/"+s.pods[i].Name)
	}
	return e
}

// namesOf returns what others may call a pod.
func namesOf(pod *v1.Pod) []string {
	names := []string{pod.Namespace + "/" + pod.Name}
	if !podfacts.IsStatic(pod) {
		return names
	}
	// A source of static pods has added the node's name. Without a node nothing is cut
	// off: no name ends with a hyphen.
	if plain, ok := strings.CutSuffix(pod.Name, "-"+strings.ToLower(pod.Spec.NodeName)); ok {
		names = append(names, pod.Namespace+"/"+plain)
	}
	return names
}

// qualified returns the name with its namespace.
func qualified(namespace, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return namespace + "/" + name
}

// checked runs an order and falls back to ByCreation if it panics, or loses or
// invents pods. Pods are ordered in any case.
func checked(order Order, pods []*v1.Pod) ([]*v1.Pod, error) {
	result := slices.Clone(pods)
	var err error
	panicked := run.Guard("the order of admission", func() error { err = order(result); return nil })
	if panicked == nil && isPermutation(pods, result) {
		return result, err
	}
	if panicked == nil {
		panicked = errors.New("the order of admission lost or invented pods")
	}
	result = slices.Clone(pods)
	return result, errors.Join(err, panicked, ByCreation(result))
}

func isPermutation(a, b []*v1.Pod) bool {
	counts := make(map[*v1.Pod]int, len(a))
	for i := range a {
		counts[a[i]]++
		counts[b[i]]--
	}
	for _, n := range counts {
		if n != 0 {
			return false
		}
	}
	return true
}
