package node

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// StatusPatch returns the strategic merge patch from old to new for labels, annotations and status.
// It contains old's UID: applied to another node of that name, it fails. Conditions of others stay.
func StatusPatch(old, new *v1.Node) ([]byte, error) {
	before, after := patched(old, ""), patched(new, old.UID)
	whole := map[string]any{}
	// The API merges addresses by type, but several may have the same type.
	if !equality.Semantic.DeepEqual(old.Status.Addresses, new.Status.Addresses) {
		whole["addresses"] = replacing(new.Status.Addresses)
	}
	before.Status.Addresses, after.Status.Addresses = nil, nil
	if hasTypeTwice(old.Status.Conditions) { // the API cannot merge such a list
		whole["conditions"] = replacing(new.Status.Conditions)
		before.Status.Conditions, after.Status.Conditions = nil, nil
	}
	patch, err := difference(before, after)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", new.Name, err)
	}
	if len(whole) == 0 {
		return json.Marshal(patch)
	}
	status, ok := patch["status"].(map[string]any)
	if !ok {
		status = map[string]any{}
		patch["status"] = status
	}
	for list, elements := range whole {
		status[list] = elements
	}
	return json.Marshal(patch)
}

// patched returns the part of a node that a status patch may change, with a UID.
func patched(node *v1.Node, uid types.UID) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{UID: uid, Labels: node.Labels, Annotations: node.Annotations}, Status: node.Status}
}

func difference(before, after *v1.Node) (strategicpatch.JSONMap, error) {
	var objects [2]strategicpatch.JSONMap
	for i, node := range []*v1.Node{before, after} {
		data, err := json.Marshal(node)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &objects[i]); err != nil {
			return nil, err
		}
		if status := objects[i]["status"].(map[string]any); status["conditions"] == nil {
			// Without a list, the patch would remove the conditions of others.
			status["conditions"] = []any{}
		}
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(v1.Node{})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergeMapPatchUsingLookupPatchMeta(objects[0], objects[1], schema)
}

// replacing returns the patch that replaces a whole list instead of merging it.
func replacing[T any](list []T) []any {
	patch := []any{map[string]any{"$patch": "replace"}}
	for _, element := range list {
		patch = append(patch, element)
	}
	return patch
}

func hasTypeTwice(conditions []v1.NodeCondition) bool {
	seen := map[v1.NodeConditionType]bool{}
	for _, c := range conditions {
		if seen[c.Type] {
			return true
		}
		seen[c.Type] = true
	}
	return false
}
