{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Rules that a schema can only state, not explain. Stops with every problem at once. */}}
{{- define "addressd-node.check" -}}
{{- $problems := list -}}
{{- if not .Values.ambient.enabled -}}
  {{- $problems = append $problems "ambient.enabled: false leaves nothing to do; this agent is for ambient meshes only" -}}
{{- end -}}
{{- range $key := list "cniBinDir" "cniConfDir" "cniNetnsDir" -}}
  {{- $value := get $.Values $key -}}
  {{- if or (not (hasPrefix "/" $value)) (contains ".." $value) (eq (clean $value) "/") -}}
    {{- $problems = append $problems (printf "%s: %q is not a folder of a node; write its whole path" $key $value) -}}
  {{- end -}}
{{- end -}}
{{- $dns := "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" -}}
{{- if not (regexMatch $dns .Values.revision) -}}
  {{- $problems = append $problems (printf "revision: %q is not a name of Kubernetes; it takes a-z, 0-9 and dashes between them" .Values.revision) -}}
{{- end -}}
{{- with .Values.xdsAddress -}}
  {{- if not (regexMatch "^(https://)?([A-Za-z0-9._-]+|\\[[0-9a-fA-F:.]+\\]):[0-9]+$" .) -}}
    {{- $problems = append $problems (printf "xdsAddress: %q is not HOST:PORT" .) -}}
  {{- end -}}
{{- end -}}
{{- range tuple "NODE_NAME" "POD_NAME" "POD_NAMESPACE" -}}
  {{- if hasKey $.Values.env . -}}
    {{- $problems = append $problems (printf "env.%s: this is what Kubernetes says of the pod; leave it out" .) -}}
  {{- end -}}
{{- end -}}
{{- range $key := keys (include "addressd-node.selector" . | fromYaml) | sortAlpha -}}
  {{- if hasKey $.Values.podLabels $key -}}
    {{- $problems = append $problems (printf "podLabels: %s is how the DaemonSet finds its pods; leave it out" $key) -}}
  {{- end -}}
{{- end -}}
{{- range $key := keys (include "addressd-node.labels" . | fromYaml) | sortAlpha -}}
  {{- if hasKey $.Values.daemonSetLabels $key -}}
    {{- $problems = append $problems (printf "daemonSetLabels: %s is set by this chart; leave it out" $key) -}}
  {{- end -}}
{{- end -}}
{{- with $problems -}}
  {{- printf "the values have %d problem(s):\n  %s" (len .) (join "\n  " .) | fail -}}
{{- end -}}
{{- end -}}
