// Package config reads the kubelet's flags and its configuration file
// (kubelet.config.k8s.io/v1beta1), with upstream's names, for the kubelet's parts. The result is
// one Config.
//
//	cfg, err := config.FromArgs(os.Args[1:], os.Stderr)
//
// Flags override the file. Defaults are then filled in, and the result is validated.
//
// One table has a row for each field and flag (table.go), and gatelist.txt one for each feature
// gate. Each setting is implemented, without effect, or refused. A setting without effect, here or
// in upstream on a CRI runtime, causes a warning if it differs from its default. A setting that
// needs isolation, safety or accounting which this kubelet lacks is an error that contains the
// field. Unknown fields of a file cause a warning. docs/flags-and-fields.md shows the table.
package config
