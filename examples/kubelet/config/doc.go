// Package config reads what the kubelet is told: its flags and its
// configuration file (kubelet.config.k8s.io/v1beta1), by the upstream names.
//
// The support policy: a value that asks for behaviour this kubelet lacks is
// refused by name at start. Zero values and the v1beta1 defaults are accepted;
// default behaviour that is not built yet is listed by NotBuilt, so that one log
// line can say so. Flags win over the file.
package config
