{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The agent is told this name, and knows its own pods by it. */}}
{{- define "addressd-node.name" -}}
addressd-node
{{- end -}}

{{/* Objects of the cluster, of which each namespace needs its own. */}}
{{- define "addressd-node.clusterName" -}}
{{ include "addressd-node.name" . }}-{{ .Release.Namespace }}
{{- end -}}

{{/* The revision with a dash before it; nothing for the default one. */}}
{{- define "addressd-node.suffix" -}}
{{- if and .Values.revision (ne .Values.revision "default") -}}-{{ .Values.revision }}{{- end -}}
{{- end -}}

{{- define "addressd-node.selector" -}}
app.kubernetes.io/name: addressd-node
k8s-app: istio-cni-node
{{- end -}}

{{/* Those of the pods. The mesh is not to capture what it depends on. */}}
{{- define "addressd-node.podLabels" -}}
{{- $labels := dict "istio.io/dataplane-mode" "none" "sidecar.istio.io/inject" "false" -}}
{{- mergeOverwrite $labels .Values.podLabels (include "addressd-node.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "addressd-node.labels" -}}
{{ include "addressd-node.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: addressd
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "addressd-node.image" -}}
{{- if contains "/" .Values.image -}}
{{ .Values.image }}
{{- else -}}
{{- with .Values.hub | default .Values.global.hub }}{{ . }}/{{ end -}}
{{ .Values.image }}:{{ .Values.tag | default .Values.global.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "addressd-node.xdsAddress" -}}
{{ .Values.xdsAddress | default (printf "istiod%s.%s.svc:15012" (include "addressd-node.suffix" .) .Values.global.istioNamespace) }}
{{- end -}}

{{/* Values of istio-cni's chart that change nothing here, so that its files of values can be used; NOTES.txt says which were given. */}}
{{- define "addressd-node.ignoredValues" -}}
chained cni cniConfFileName compatibilityVersion istioOwnedCNIConfig istioOwnedCNIConfigFileName platform profile provider repair variant
{{- end -}}
