package podsource

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// DecodeAll decodes a manifest with a Pod or a PodList; see Decode. The pods of a list need
// neither kind nor apiVersion. An invalid pod makes the whole list invalid; the error names its
// index.
func (d Decoder) DecodeAll(manifest []byte, origin string) ([]*v1.Pod, error) {
	if d.NodeName == "" {
		return nil, errors.New("podsource: Decoder.NodeName is required")
	}
	manifest, err := readable(manifest)
	if err != nil {
		return nil, err
	}
	items, isList, err := splitList(manifest)
	if err != nil {
		return nil, err
	}
	if !isList {
		pod, err := d.Decode(manifest, origin)
		if err != nil {
			return nil, err
		}
		return []*v1.Pod{pod}, nil
	}
	pods := make([]*v1.Pod, 0, len(items))
	for i, item := range items {
		pod, err := d.decodeItem(item, origin)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func splitList(manifest []byte) (items []json.RawMessage, isList bool, err error) {
	var head map[string]any
	if yaml.Unmarshal(manifest, &head) != nil || head["kind"] != "PodList" {
		return nil, false, nil // Decode reports the error
	}
	if err := checkType(head, "PodList"); err != nil {
		return nil, true, err
	}
	strict, err := yaml.YAMLToJSONStrict(manifest)
	if err != nil {
		return nil, true, cleanError(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(strict, &fields); err != nil {
		return nil, true, cleanError(err)
	}
	for name := range fields {
		switch name {
		case "kind", "apiVersion", "metadata", "items":
		default:
			return nil, true, fmt.Errorf("unknown field %.80q of a PodList", name)
		}
	}
	if fields["items"] == nil {
		return nil, true, errors.New("items: Required value")
	}
	if err := json.Unmarshal(fields["items"], &items); err != nil {
		return nil, true, errors.New("items: must be a list")
	}
	return items, true, nil
}

func (d Decoder) decodeItem(item json.RawMessage, origin string) (*v1.Pod, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(item, &fields); err != nil || fields == nil {
		return nil, errors.New("must be an object with the fields of a Pod")
	}
	for name, value := range map[string]string{"kind": `"Pod"`, "apiVersion": `"v1"`} {
		if _, set := fields[name]; !set {
			fields[name] = json.RawMessage(value)
		}
	}
	manifest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return d.Decode(manifest, origin)
}
