package podsource

import (
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
	if pod.UID == "" {
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
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podfacts.ConfigHash] = string(pod.UID)
	pod.Spec.NodeName = d.NodeName
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

func tolerateNoExecute(pod *v1.Pod) {
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for _, t := range pod.Spec.Tolerations {
		if t == all {
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, all)
}
