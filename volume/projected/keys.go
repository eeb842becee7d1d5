package projected

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// configMapFiles returns the files of a config map. defaultMode is the volume's; the API
// server, or its substitute, sets it.
func configMapFiles(ctx context.Context, from objects.ConfigMaps, namespace string, p *v1.ConfigMapProjection, defaultMode *int32) (payload, error) {
	s := selection{volume.Object{Kind: objects.KindConfigMap, Namespace: namespace, Name: p.Name}, p.Items, defaultMode, isTrue(p.Optional)}
	if from == nil {
		return s.files(nil, errors.New("this agent has no config maps"))
	}
	if p.Name == "" {
		return nil, volume.AtField("name", errors.New("required"))
	}
	c, err := from.ConfigMap(ctx, namespace, p.Name)
	if err != nil {
		return s.files(nil, err)
	}
	data := make(map[string][]byte, len(c.Data)+len(c.BinaryData))
	for key, value := range c.Data {
		data[key] = []byte(value)
	}
	for key, value := range c.BinaryData {
		data[key] = value
	}
	return s.files(data, nil)
}

func secretFiles(ctx context.Context, from objects.Secrets, namespace string, p *v1.SecretProjection, defaultMode *int32) (payload, error) {
	s := selection{volume.Object{Kind: objects.KindSecret, Namespace: namespace, Name: p.Name}, p.Items, defaultMode, isTrue(p.Optional)}
	if from == nil {
		return s.files(nil, errors.New("this agent has no secrets"))
	}
	if p.Name == "" {
		return nil, volume.AtField("name", errors.New("required"))
	}
	o, err := from.Secret(ctx, namespace, p.Name)
	if err != nil {
		return s.files(nil, err)
	}
	return s.files(o.Data, nil)
}

type selection struct {
	object   volume.Object
	items    []v1.KeyToPath
	mode     *int32
	optional bool
}

// files returns the files of the object's data. err is the error of the read; NotFound is no
// error for an optional object.
func (s selection) files(data map[string][]byte, err error) (payload, error) {
	if err != nil && !(s.optional && objects.IsNotFound(err)) {
		return nil, err
	}
	mode, err := modeOf("defaultMode", s.mode)
	if err != nil {
		return nil, err
	}
	out := payload{}
	if len(s.items) == 0 {
		for key, value := range data {
			out[key] = payloadFile{Data: value, Mode: mode}
		}
		return out, nil
	}
	for i, item := range s.items {
		if err := checkPath(item.Path); err != nil {
			return nil, volume.AtField(fmt.Sprintf("items[%d].path", i), err)
		}
		value, ok := data[item.Key]
		if !ok {
			if s.optional {
				continue
			}
			return nil, volume.AtField(fmt.Sprintf("items[%d].key", i), fmt.Errorf("%s has no key %.80q", s.object, item.Key))
		}
		mode := mode
		if item.Mode != nil {
			if mode, err = modeOf(fmt.Sprintf("items[%d].mode", i), item.Mode); err != nil {
				return nil, err
			}
		}
		out.add(payload{item.Path: {Data: value, Mode: mode}})
	}
	return out, nil
}

func modeOf(field string, mode *int32) (int32, error) {
	switch {
	case mode == nil:
		return 0, volume.AtField(field, errors.New("required"))
	case *mode < 0 || *mode > 0o777:
		return 0, volume.AtField(field, fmt.Errorf("%#o is not from 0 to 0777", *mode))
	}
	return *mode, nil
}

func isTrue(b *bool) bool { return b != nil && *b }
