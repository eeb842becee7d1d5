package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

// environment has a container's variables, ordered by the first appearance of their names. A
// later value replaces the earlier one in place.
type environment struct {
	names  []string
	values map[string]string
	// services are visible to references and are appended to the variables at the end. They are
	// not in the map, because there may be many and references to them are rare.
	services []v1.EnvVar
	// size is the size of the variables as Linux counts it.
	size int
}

// set sets a variable. It fails if a process could not be started with the result.
func (e *environment) set(name, value string) error {
	old, known := e.values[name]
	if len(name)+len(value) > podfacts.MaxExecString-1 {
		return errLongVariable
	}
	size := e.size + len(value) - len(old)
	if !known {
		size += len(name) + len("=\x00")
	}
	if size > podfacts.MaxExecTotal {
		return errLargeEnvironment
	}
	if !known {
		e.names = append(e.names, name)
	}
	e.values[name], e.size = value, size
	return nil
}

var (
	errLongVariable     = fmt.Errorf("expands to more than %d bytes, including the name", podfacts.MaxExecString-1)
	errLongArgument     = fmt.Errorf("expands to more than %d bytes, the limit of an argument", podfacts.MaxExecString)
	errLargeEnvironment = fmt.Errorf("the container's variables, command and arguments expand to more than %d bytes", podfacts.MaxExecTotal)
)

func (e *environment) lookup(name string) (string, bool) {
	if value, ok := e.values[name]; ok {
		return value, true
	}
	i := slices.IndexFunc(e.services, func(v v1.EnvVar) bool { return v.Name == name })
	if i < 0 {
		return "", false
	}
	return e.services[i].Value, true
}

// expandAll expands a command or arguments. field is their path for errors. They share the size
// limit with the variables.
func (e *environment) expandAll(field string, texts []string) ([]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		var ok bool
		if out[i], ok = podfacts.Expand(text, podfacts.MaxExecString, e.lookup); !ok {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, errLongArgument)
		}
		if e.size += len(out[i]) + len("\x00"); e.size > podfacts.MaxExecTotal {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, errLargeEnvironment)
		}
	}
	return out, nil
}

func (e *environment) keyValues() []*runtimeapi.KeyValue {
	size := 0
	for _, value := range e.values {
		size += len(value)
	}
	// Allocate once for all variables and once for all values.
	out, all := make([]*runtimeapi.KeyValue, len(e.names)), make([]runtimeapi.KeyValue, len(e.names))
	text := make([]byte, 0, size)
	for i, name := range e.names {
		start := len(text)
		text = append(text, e.values[name]...)
		out[i] = &all[i]
		out[i].Key, out[i].Value = name, text[start:len(text):len(text)]
	}
	return out
}

// envBuild builds the environment of one container.
type envBuild struct {
	*Builder
	in  Instance
	env environment

	// Objects are read only once, so that all variables of a container come from the same
	// version.
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

// makeEnv resolves a container's variables in the order that Kubernetes guarantees: devices,
// envFrom, env (each may refer to earlier variables and to services), services.
func (b *Builder) makeEnv(ctx context.Context, in Instance, devices []v1.EnvVar) (*environment, error) {
	e := &envBuild{Builder: b, in: in, configMaps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}}
	services, err := b.serviceEnv(ctx, in.Pod)
	if err != nil {
		return nil, err
	}
	most := len(in.Container.Env) + len(devices) + len(services)
	e.env.values, e.env.names = make(map[string]string, most), make([]string, 0, most)
	e.env.services = services
	for _, v := range devices {
		if err := e.env.set(v.Name, v.Value); err != nil {
			return nil, fmt.Errorf("variable %s of a device: %w", v.Name, err)
		}
	}
	for i := range in.Container.EnvFrom {
		if err := e.from(ctx, &in.Container.EnvFrom[i]); err != nil {
			return nil, fmt.Errorf("%s.envFrom[%d]: %w", fieldOf(in), i, err)
		}
	}
	for i := range in.Container.Env {
		err := e.one(ctx, &in.Container.Env[i])
		if errors.Is(err, errLongVariable) || errors.Is(err, errLargeEnvironment) {
			field := "value"
			if in.Container.Env[i].Value == "" {
				field = "valueFrom"
			}
			return nil, fmt.Errorf("%s.env[%d].%s: %w", fieldOf(in), i, field, err) // without the name, which may be the long part
		}
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", in.Container.Env[i].Name, err)
		}
	}
	for _, v := range services { // not counted against the container's limit, because the container does not choose them
		if _, ok := e.env.values[v.Name]; !ok {
			e.env.names, e.env.values[v.Name] = append(e.env.names, v.Name), v.Value
		}
	}
	return &e.env, nil
}

var (
	errBadName  = errors.New("not a valid environment variable name")
	errNUL      = errors.New("value has a NUL byte")
	errNoValue  = errors.New("valueFrom has no source")
	errNoSource = errors.New("no source is set")
)

// goodEnvName reports whether a variable can have this name: printable ASCII without "=".
func goodEnvName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return name != ""
}

// one resolves a variable. A missing optional source gives no variable, instead of an empty one.
func (e *envBuild) one(ctx context.Context, v *v1.EnvVar) error {
	if !goodEnvName(v.Name) {
		return errBadName
	}
	value, found := "", true
	var err error
	switch {
	case v.Value != "":
		var ok bool
		if value, ok = podfacts.Expand(v.Value, podfacts.MaxExecString, e.env.lookup); !ok {
			err = errLongVariable
		}
	case v.ValueFrom != nil:
		value, found, err = e.source(ctx, v.ValueFrom)
	}
	switch {
	case err != nil:
		return err
	case strings.Contains(value, "\x00"):
		return errNUL
	case found:
		return e.env.set(v.Name, value)
	}
	return nil
}

// fieldOf returns the path of a container in its pod's spec.
func fieldOf(in Instance) string { return podfacts.SpecPath(in.Pod, in.Container.Name) }

func inField(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// source returns the value of a source, and whether it exists.
func (e *envBuild) source(ctx context.Context, from *v1.EnvVarSource) (value string, found bool, err error) {
	pod := e.in.Pod
	switch {
	case from.FieldRef != nil:
		value, err = podfacts.FieldValue(pod, from.FieldRef.FieldPath, podfacts.Surroundings{
			NodeName: e.cfg.Node.Name, HostIPs: e.nodeIPs(), PodIPs: e.in.PodIPs,
		})
		return value, true, inField("fieldRef", err)
	case from.ResourceFieldRef != nil:
		value, err = podfacts.ResourceValue(pod, e.in.Container, from.ResourceFieldRef, e.cfg.Node.Allocatable)
		return value, true, inField("resourceFieldRef", err)
	case from.ConfigMapKeyRef != nil:
		return e.configMapKey(ctx, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return e.secretKey(ctx, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return e.fileKey(ctx, from.FileKeyRef)
	}
	return "", false, errNoValue
}

// at adds the path of a field to an error, unless it contains a FieldError.
func at(path string, err error) error {
	if fault := (*volume.FieldError)(nil); errors.As(err, &fault) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
