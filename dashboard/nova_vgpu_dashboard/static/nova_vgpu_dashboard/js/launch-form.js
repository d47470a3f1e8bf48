/*
 * Licensed under the Apache License, Version 2.0 (the "License"); you may
 * not use this file except in compliance with the License. You may obtain
 * a copy of the License at
 *
 * http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
 * WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
 * License for the specific language governing permissions and limitations
 * under the License.
 */

/*
 * The flavors of the launch form get one more column: which vGPUs they bring.
 *
 * AngularJS applies all directives of one name. This one is beside Horizon's
 * own for tables with two lists, and adds the column if the lists are of
 * flavors. The words come from the server, one request for each form. Horizon
 * writes them as text. Without an answer the form is as it was.
 */
(function () {
  'use strict';

  angular
    .module('nova_vgpu_dashboard', ['horizon.framework'])
    .directive('transferTable', describeFlavors);

  describeFlavors.$inject = ['horizon.framework.util.http.service'];

  function describeFlavors(server) {
    return {restrict: 'E', link: link};

    function link(scope) {
      var form = scope.ctrl;
      if (form && form.availableFlavorFacades) {
        server.get(
          '/project/vgpu_flavors/words/', {suppress403Toast: true}
        ).then(function (response) {
          addColumn(scope, form, response.data);
        }, angular.noop);
      }
    }
  }

  function addColumn(scope, form, words) {
    if (angular.equals({}, words.flavors)) {
      return;
    }
    scope.$watchCollection('ctrl.availableFlavorFacades', function (flavors) {
      angular.forEach(flavors, function (flavor) {
        flavor.vgpus = words.flavors.hasOwnProperty(flavor.id)
          ? words.flavors[flavor.id] : words.none;
      });
    });
    angular.forEach(
      [form.availableTableConfig, form.allocatedTableConfig],
      function (table) {
        table.columns.splice(1, 0, {
          id: 'vgpus',
          title: words.title,
          priority: 1,
          classes: 'nova-vgpu-words'
        });
      }
    );
  }
})();
