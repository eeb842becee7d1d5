package resize

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
)

// saves counts what is written to a store.
type saves struct {
	Store
	n int
}

func (s *saves) Save(uid types.UID, a actions.Actuated) error {
	s.n++
	return s.Store.Save(uid, a)
}

// What is on record already, or asks for nothing in a pod that does not either, is not
// written.
func TestNoteContainer(t *testing.T) {
	none, five := v1.ResourceRequirements{}, needs(5, 5)
	of := func(r v1.ResourceRequirements) map[string]v1.ResourceRequirements {
		return map[string]v1.ResourceRequirements{"c": r}
	}
	otherRequest := v1.ResourceRequirements{Requests: needs(5, 6).Requests, Limits: five.Limits}
	otherLimit := v1.ResourceRequirements{Requests: five.Requests, Limits: needs(5, 6).Limits}
	for name, c := range map[string]struct {
		recorded  map[string]v1.ResourceRequirements
		resources v1.ResourceRequirements
		pod       *v1.ResourceRequirements
		writes    int
	}{
		"new":                          {nil, five, nil, 1},
		"the same":                     {of(five), needs(5, 5), nil, 0},
		"another request":              {of(five), otherRequest, nil, 1},
		"another limit":                {of(five), otherLimit, nil, 1},
		"asks for nothing more":        {of(five), none, nil, 1},
		"asks for nothing":             {nil, none, nil, 0},
		"asks for nothing, its pod":    {nil, none, &five, 1},
		"the same nothing in that pod": {of(none), none, &five, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := &saves{Store: NewMemory()}
			r := &Record{store: store, uid: "1", actuated: actions.Actuated{Containers: c.recorded}}
			container := &v1.Container{Name: "c", Resources: c.resources}
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.pod}}
			require.NoError(t, r.NoteContainer(pod, container))
			require.Equal(t, c.writes, store.n)
			require.NoError(t, r.NoteContainer(pod, container), "and once is enough")
			require.Equal(t, c.writes, store.n)
		})
	}
}
