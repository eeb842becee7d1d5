package writer

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func podOf(policy v1.RestartPolicy, container string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", Generation: 1},
		Spec:       v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{{Name: container, Image: "image/" + container}}},
	}
}

func is(t v1.PodConditionType, value v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: value}
}

func put(s *v1.PodStatus, c v1.PodCondition) {
	if place := podfacts.Condition(s.Conditions, c.Type); place != nil {
		*place = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}
