package podsource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// makeStatic sets the identity of a static pod: UID, name, namespace, node, and annotations.
func (d Decoder) makeStatic(pod *v1.Pod, origin string) error {
	derived := pod.UID == ""
	if derived {
		uid, err := hashUID(pod, d.NodeName, origin)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	pod.Name = d.podName(pod.Name)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if derived && d.UID != nil {
		pod.UID = d.UID(pod, origin)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podfacts.ConfigHash] = string(pod.UID)
	pod.Spec.NodeName = d.NodeName
	// Not before the validation, whose errors name the field of the manifest, nor before the UID.
	pod.Spec.ServiceAccountName = cmp.Or(pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount)
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	if !d.EvictedByTaints {
		tolerateNoExecute(pod)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	return nil
}

func (d Decoder) podName(name string) string { return name + "-" + strings.ToLower(d.NodeName) }

const (
	originFile = "file:"
	originURL  = "url:"
)

// hashUID derives the UID from the manifest, the origin and, unless the origin is a URL, the node.
func hashUID(pod *v1.Pod, node, origin string) (types.UID, error) {
	content, err := json.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("hashing the pod: %w", err)
	}
	h := fnv.New128a()
	h.Write(content)
	if !strings.HasPrefix(origin, originURL) {
		fmt.Fprintf(h, "host:%s", node)
	}
	fmt.Fprint(h, origin)
	return types.UID(fmt.Sprintf("%x", h.Sum(nil))), nil
}

// tolerateNoExecute adds a toleration without time limit, in place of one with a limit.
func tolerateNoExecute(pod *v1.Pod) {
	all, has := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}, false
	for i := range pod.Spec.Tolerations {
		if t := &pod.Spec.Tolerations[i]; t.MatchToleration(&all) {
			*t, has = all, true
		}
	}
	if !has {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, all)
	}
}
