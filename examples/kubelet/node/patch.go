package node

import (
	"encoding/json"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
)

// StatusPatch returns the strategic merge patch that makes one node another, as far as
// labels, annotations and the status go. It carries the UID: applied to another node of
// that name it is a conflict. Conditions of others stay as they are.
//
// It is written here, since the library that makes such patches for any type links a parser
// of OpenAPI. The tests apply its patches with that library.
func StatusPatch(old, new *v1.Node) ([]byte, error) {
	was, err := fields(old)
	if err != nil {
		return nil, err
	}
	is, err := fields(new)
	if err != nil {
		return nil, err
	}
	patch := merge(was, is)
	meta, _ := patch["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		patch["metadata"] = meta
	}
	meta["uid"] = string(old.UID)

	oldStatus, newStatus := was["status"].(map[string]any), is["status"].(map[string]any)
	if status, ok := patch["status"].(map[string]any); ok {
		patchLists(status, oldStatus, newStatus)
	}
	return json.Marshal(patch)
}

// patchLists patches the lists that the API merges.
func patchLists(patch, old, new map[string]any) {
	if _, differs := patch["addresses"]; differs {
		patch["addresses"] = replace(list(new, "addresses"))
	}
	if _, differs := patch["conditions"]; differs {
		conditions := list(new, "conditions")
		patch["conditions"] = mergeByType(list(old, "conditions"), conditions)
		order := []any{}
		for _, element := range conditions {
			order = append(order, map[string]any{"type": element.(map[string]any)["type"]})
		}
		patch["$setElementOrder/conditions"] = order
	}
}

func list(object map[string]any, name string) []any {
	elements, _ := object[name].([]any)
	return elements
}

// fields are what a patch of the status may change.
func fields(node *v1.Node) (map[string]any, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": notNil(node.Labels), "annotations": notNil(node.Annotations)},
		"status":   &node.Status,
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	out := map[string]any{}
	return out, json.Unmarshal(data, &out)
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// merge is what makes one object another: nil for what is to go, lists as a whole.
func merge(old, new map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range new {
		if reflect.DeepEqual(old[key], value) {
			continue
		}
		before, ok1 := old[key].(map[string]any)
		after, ok2 := value.(map[string]any)
		if patch[key] = value; ok1 && ok2 {
			patch[key] = merge(before, after)
		}
	}
	for key := range old {
		if _, ok := new[key]; !ok {
			patch[key] = nil
		}
	}
	return patch
}

// replace makes a list another one as a whole, although the API would merge it. The type
// of an address is not its identity.
func replace(new []any) []any {
	return append([]any{map[string]any{"$patch": "replace"}}, new...)
}

// mergeByType makes a list of conditions another one: what is not named stays. A list that
// has a type twice cannot be merged.
func mergeByType(old, new []any) []any {
	before, ok := byType(old)
	after, _ := byType(new)
	if !ok {
		return replace(new)
	}
	patch := []any{}
	for _, element := range new {
		condition := element.(map[string]any)
		kind := condition["type"]
		if was, ok := before[kind]; !ok {
			patch = append(patch, condition)
		} else if !reflect.DeepEqual(was, condition) {
			change := merge(was, condition)
			change["type"] = kind
			patch = append(patch, change)
		}
	}
	for _, element := range old {
		kind := element.(map[string]any)["type"]
		if _, ok := after[kind]; !ok {
			patch = append(patch, map[string]any{"$patch": "delete", "type": kind})
		}
	}
	return patch
}

func byType(list []any) (index map[any]map[string]any, unique bool) {
	index = map[any]map[string]any{}
	for _, element := range list {
		condition := element.(map[string]any)
		index[condition["type"]] = condition
	}
	return index, len(index) == len(list)
}
