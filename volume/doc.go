// Package volume has the vocabulary of volume plugins: Plugin and its optional abilities,
// Spec, Mount, Layout and the marks of errors. Package volume/manager calls the plugins.
package volume
