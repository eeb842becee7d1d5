package podsource

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// ErrNoIdentity is wrapped by the errors about pods without UID, name or namespace.
var ErrNoIdentity = errors.New("podsource: a pod needs a UID, a name and a namespace")

// identity is the name and the UID of a pod. Each is unique in a set.
type identity struct {
	name types.NamespacedName
	uid  types.UID
}

func identityOf(pod *v1.Pod) identity {
	return identity{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID}
}

type claims struct {
	names map[types.NamespacedName]claim
	uids  map[types.UID]claim
}

type claim struct {
	pod    *v1.Pod
	origin string
}

func newClaims(pods int) claims {
	return claims{make(map[types.NamespacedName]claim, pods), make(map[types.UID]claim, pods)}
}

// add adds a pod to the set. If an earlier pod has its name or UID, add returns the reason of the
// refusal instead.
func (c claims) add(pod *v1.Pod, origin string) (refusal string) {
	id := identityOf(pod)
	if first, taken := c.names[id.name]; taken {
		return fmt.Sprintf("metadata.name: pod %s/%s is already defined by %s", pod.Namespace, pod.Name, first.origin)
	}
	if first, taken := c.uids[id.uid]; taken {
		return fmt.Sprintf("metadata.uid: %s is already the UID of pod %s/%s, defined by %s", pod.UID, first.pod.Namespace, first.pod.Name, first.origin)
	}
	c.names[id.name], c.uids[id.uid] = claim{pod, origin}, claim{pod, origin}
	return ""
}

type ignoredPod struct {
	pod     *v1.Pod
	message string
}

// choose splits a set into the pods to take and the pods to ignore. Of several pods with one name or
// UID it takes a pod of the previous set, or else the first. The error names the pods without
// identity.
func choose(pods, previous []*v1.Pod) (taken []*v1.Pod, refused []ignoredPod, err error) {
	var errs []error
	set := newClaims(len(pods))
	before := make(map[identity]bool, len(previous))
	for _, pod := range previous {
		before[identityOf(pod)] = true
	}
	kept := make(map[*v1.Pod]bool, len(previous))
	for _, pod := range pods {
		if pod != nil && before[identityOf(pod)] && podfacts.CheckNames(pod) == nil && set.add(pod, "another pod of the set") == "" {
			kept[pod] = true
		}
	}
	for i, pod := range pods {
		if pod == nil {
			refused = append(refused, ignoredPod{message: fmt.Sprintf("pods[%d] is nil", i)})
			errs = append(errs, fmt.Errorf("%w: pods[%d] is nil", ErrNoIdentity, i))
			continue
		}
		if missing := missingIdentity(pod); missing != "" {
			refused = append(refused, ignoredPod{pod, missing + ": Required value"})
			errs = append(errs, fmt.Errorf("%w: pods[%d], namespace %q, name %q, UID %q: %s: Required value", ErrNoIdentity, i, pod.Namespace, pod.Name, pod.UID, missing))
			continue
		}
		if err := podfacts.CheckNames(pod); err != nil {
			refused = append(refused, ignoredPod{pod, err.Error()})
			continue
		}
		if kept[pod] {
			delete(kept, pod) // a repetition is refused
			taken = append(taken, pod)
			continue
		}
		if refusal := set.add(pod, "another pod of the set"); refusal != "" {
			refused = append(refused, ignoredPod{pod, refusal})
			continue
		}
		taken = append(taken, pod)
	}
	return taken, refused, errors.Join(errs...)
}

func missingIdentity(pod *v1.Pod) string {
	switch {
	case pod.UID == "":
		return "metadata.uid"
	case pod.Name == "":
		return "metadata.name"
	case pod.Namespace == "":
		return "metadata.namespace"
	}
	return ""
}
