package podsource

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// podsOf reads the pods of a scenario's command.
func podsOf(t *testing.T, text string) []*v1.Pod {
	var pods []*v1.Pod
	for word := range strings.SplitSeq(text, ";") {
		if fields := strings.Fields(word); len(fields) > 0 {
			pods = append(pods, podOf(t, fields))
		}
	}
	return pods
}

func podOf(t *testing.T, fields []string) *v1.Pod {
	pod := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: fields[0]}}
	annotate := func(key, value string) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "uid":
			pod.UID = types.UID(value)
		case "image":
			image(value)(pod)
		case "phase":
			pod.Status.Phase = v1.PodPhase(value)
		case "deleting":
			deleting(pod)
		case "secret":
			pod.Spec.Volumes = []v1.Volume{{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: value}}}}
		case "account":
			pod.Spec.ServiceAccountName = value
		case "seen":
			annotate(podfacts.ConfigSeen, value)
		case "source":
			annotate(podfacts.ConfigSource, value)
		case "mirror":
			annotate(podfacts.ConfigMirror, value)
		case "note":
			annotate("note", value)
		default:
			require.Fail(t, "unknown field of a pod", field)
		}
	}
	return pod
}

// content is what a scenario writes into a file.
func content(t *testing.T, text string) string {
	if raw, ok := strings.CutPrefix(text, "text="); ok {
		return raw
	}
	pods := podsOf(t, text)
	require.Len(t, pods, 1)
	return encode(pods[0])
}

func listOf(pods []*v1.Pod) string {
	list := map[string]any{"apiVersion": "v1", "kind": "PodList", "items": pods}
	return encode(list)
}

func encode(object any) string {
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
